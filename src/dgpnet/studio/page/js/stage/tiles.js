/** A mask's tiles as small canvases, drawn when they are first seen and mended where labels have changed. */

import { SIDE, deepestLevel, drawTile, levelFor } from "../core/pyramid.js";
import { intersection, union } from "../core/rects.js";

/** @typedef {import("../core/rects.js").Rect} Rect */
/**
 * @typedef {{canvas: OffscreenCanvas, context: OffscreenCanvasRenderingContext2D, level: number, left: number,
 *            top: number, width: number, height: number, dirty: Rect | null, used: number}} Tile in its level's pixels
 */

/** More tiles than any screen shows at once; the longest unused go first. */
const MOST = 192;

/** From this many screen pixels per pixel of the photograph on, borders are lines between pixels. */
export const CLOSE = 2;

export class MaskTiles {
  /** @param {import("../core/labels.js").Labels} labels @param {{fill: Uint32Array, line: Uint32Array}} palette */
  constructor(labels, palette) {
    this.labels = labels;
    this.deepest = deepestLevel(labels.width, labels.height);
    /** @type {Map<string, Tile>} */
    this.tiles = new Map();
    this.clock = 0;
    // Every tile is drawn here first; only its canvas is kept.
    this.scratch = new ImageData(SIDE, SIDE);
    this.pixels = new Uint32Array(this.scratch.data.buffer);
    this.setPalette(palette);
  }

  /** @param {{fill: Uint32Array, line: Uint32Array}} palette */
  setPalette(palette) {
    this.palette = palette;
    this.flat = { fill: palette.fill, line: palette.fill };
    this.tiles.clear();
  }

  /** @param {Rect} rect labels in it have changed */
  touch(rect) {
    for (const tile of this.tiles.values()) {
      const size = 1 << tile.level;
      // One more pixel of the level on each side: the line along a border depends on neighbours.
      const x = Math.floor(rect.x / size) - 1;
      const y = Math.floor(rect.y / size) - 1;
      const changed = {
        x,
        y,
        width: Math.ceil((rect.x + rect.width) / size) + 1 - x,
        height: Math.ceil((rect.y + rect.height) / size) + 1 - y,
      };
      const part = intersection(changed, { x: tile.left, y: tile.top, width: tile.width, height: tile.height });
      if (part) tile.dirty = union(tile.dirty, part);
    }
  }

  /**
   * Draws what `rect` of the photograph shows.
   * @param {CanvasRenderingContext2D} context @param {import("../core/view.js").View} view @param {Rect} rect
   */
  draw(context, view, rect) {
    const level = levelFor(view.scale, this.deepest);
    const flat = view.scale >= CLOSE;
    const span = SIDE << level;
    const lastColumn = Math.floor((rect.x + rect.width - 1) / span);
    const lastRow = Math.floor((rect.y + rect.height - 1) / span);
    context.imageSmoothingEnabled = !flat;
    for (let row = Math.floor(rect.y / span); row <= lastRow; row++) {
      for (let column = Math.floor(rect.x / span); column <= lastColumn; column++) {
        const tile = this.#tile(level, column, row, flat);
        // Whole pixels of the screen, so that neighbours meet without a seam.
        const size = 1 << level;
        const x0 = Math.round(tile.left * size * view.scale) + view.left;
        const y0 = Math.round(tile.top * size * view.scale) + view.top;
        const right = Math.min(this.labels.width, (tile.left + tile.width) * size);
        const bottom = Math.min(this.labels.height, (tile.top + tile.height) * size);
        const x1 = Math.round(right * view.scale) + view.left;
        const y1 = Math.round(bottom * view.scale) + view.top;
        const width = right / size - tile.left;
        const height = bottom / size - tile.top;
        context.drawImage(tile.canvas, 0, 0, width, height, x0, y0, x1 - x0, y1 - y0);
      }
    }
    this.#forget();
  }

  #tile(level, column, row, flat) {
    const key = `${flat ? "f" : level}/${column}/${row}`;
    let tile = this.tiles.get(key);
    if (!tile) {
      const size = 1 << level;
      const left = column * SIDE;
      const top = row * SIDE;
      const width = Math.min(SIDE, Math.ceil(this.labels.width / size) - left);
      const height = Math.min(SIDE, Math.ceil(this.labels.height / size) - top);
      const canvas = new OffscreenCanvas(width, height);
      const context = canvas.getContext("2d", { willReadFrequently: true });
      tile = { canvas, context, level, left, top, width, height, dirty: { x: left, y: top, width, height }, used: 0 };
      this.tiles.set(key, tile);
    }
    if (tile.dirty) this.#mend(tile, flat);
    tile.used = ++this.clock;
    return tile;
  }

  #mend(tile, flat) {
    const { x, y, width, height } = tile.dirty;
    const palette = flat ? this.flat : this.palette;
    drawTile(this.labels, tile.level, x, y, x + width, y + height, palette, this.pixels, SIDE, tile.left, tile.top);
    tile.context.putImageData(this.scratch, 0, 0, x - tile.left, y - tile.top, width, height);
    tile.dirty = null;
  }

  #forget() {
    if (this.tiles.size <= MOST) return;
    const oldest = [...this.tiles].sort((a, b) => a[1].used - b[1].used).slice(0, this.tiles.size - MOST);
    for (const [key] of oldest) this.tiles.delete(key);
  }
}
