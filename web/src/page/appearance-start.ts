/** Applies the remembered appearance; the page is first painted afterwards. */
import { applyAppearance, recallAppearance } from "./appearance.ts";

applyAppearance(recallAppearance());
