/**
 * Light or dark: as the system says, or as the reader of this browser has chosen.
 */

import { setAttribute } from "../core/dom.js";
import { remember, remembered } from "./memory.js";

const THEMES = ["system", "light", "dark"];

/** Shows the theme that was chosen, and answers its name. */
export function applyTheme() {
  const chosen = remembered("theme", "system");
  const theme = THEMES.includes(chosen) ? chosen : "system";
  setAttribute(document.documentElement, "data-theme", theme === "system" ? null : theme);
  return theme;
}

export function nextTheme() {
  remember("theme", THEMES[(THEMES.indexOf(applyTheme()) + 1) % THEMES.length] ?? "system");
  return applyTheme();
}
