/**
 * The tools. Each has: down, move, up (points of the photograph), cancel; and may have: frame (before each drawing),
 * lines (what to draw over the canvas), commit, escape, backspace (keys; true where it was of use), hover, double,
 * leave.
 */

import { Brush } from "./brush.js";
import { Fill } from "./fill.js";
import { Lasso, Polygon } from "./outline.js";
import { Click } from "./click.js";

/** @param {import("../stage/stage.js").Stage} stage @returns {Record<string, any>} */
export function makeTools(stage) {
  return {
    click: new Click(stage),
    brush: new Brush(stage, "brush"),
    eraser: new Brush(stage, "eraser"),
    polygon: new Polygon(stage),
    lasso: new Lasso(stage),
    fill: new Fill(stage),
    hand: { name: "hand", cursor: "grab", down() {}, move() {}, up() {}, cancel() {} },
  };
}
