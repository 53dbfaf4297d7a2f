/** Keys of input methods. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isComposing } from "./input-method.ts";

test("an input method's keys are known where the composition is over before them, too", () => {
  assert.ok(isComposing({ isComposing: true, keyCode: 13 }));
  assert.ok(isComposing({ isComposing: false, keyCode: 229 }), "as in Safari");
  assert.ok(!isComposing({ isComposing: false, keyCode: 13 }));
});
