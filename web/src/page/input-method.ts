/** Keys of input methods, by which Chinese, Japanese and others are written. */

/** Code of a key that an input method takes. */
const taken = 229;

/**
 * Whether a key belongs to an input method. Safari ends the composition before the key that
 * confirms or gives it up, so that only the key's code says so.
 */
export const isComposing = (event: Pick<KeyboardEvent, "isComposing" | "keyCode">): boolean =>
  event.isComposing || event.keyCode === taken;
