/** A region that is offered and not painted yet, as a small picture that is drawn over the mask. */

import { eachSpan } from "../core/runs.js";

/** No side of the picture is longer; the region itself stays exact. */
const LONGEST = 1024;

export class Preview {
  /** @param {import("../core/runs.js").Patch} patch @param {string} colour "#rrggbb" */
  constructor(patch, colour) {
    this.rect = { x: patch.x, y: patch.y, width: patch.width, height: patch.height };
    const scale = Math.min(1, LONGEST / Math.max(patch.width, patch.height));
    const width = Math.max(1, Math.ceil(patch.width * scale));
    const height = Math.max(1, Math.ceil(patch.height * scale));
    const covered = new Uint8Array(width * height);
    eachSpan(patch, (y, from, to) => {
      const row = Math.min(height - 1, Math.floor((y - patch.y) * scale)) * width;
      const last = Math.min(
        width,
        Math.max(Math.floor((from - patch.x) * scale) + 1, Math.ceil((to - patch.x) * scale)),
      );
      covered.fill(1, row + Math.floor((from - patch.x) * scale), row + last);
    });
    this.canvas = coloured(covered, width, height, colour);
    this.patch = patch;
  }

  /** @param {{x: number, y: number}} point of the photograph @returns {boolean} whether it is in the region */
  holds(point) {
    const x = Math.floor(point.x);
    const y = Math.floor(point.y);
    let inside = false;
    eachSpan(this.patch, (row, from, to) => {
      if (row === y && x >= from && x < to) inside = true;
    });
    return inside;
  }

  /** @param {CanvasRenderingContext2D} context @param {import("../core/view.js").View} view */
  draw(context, view) {
    const { x, y, width, height } = this.rect;
    context.imageSmoothingEnabled = view.scale < 2;
    const left = x * view.scale + view.left;
    context.drawImage(this.canvas, left, y * view.scale + view.top, width * view.scale, height * view.scale);
  }
}

/** The class's colour, bordered in white so that it is told from what is painted already. */
function coloured(covered, width, height, colour) {
  const rgb = parseInt(colour.slice(1), 16);
  const bgr = ((rgb & 0xff) << 16) | (rgb & 0xff00) | (rgb >> 16);
  const fill = ((150 << 24) | bgr) >>> 0;
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const at = (x, y) => x >= 0 && y >= 0 && x < width && y < height && covered[y * width + x];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (!covered[y * width + x]) continue;
      const inner = at(x - 1, y) && at(x + 1, y) && at(x, y - 1) && at(x, y + 1);
      pixels[y * width + x] = inner ? fill : 0xffffffff;
    }
  }
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
