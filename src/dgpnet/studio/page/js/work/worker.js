/**
 * Heavy work beside the page: decoding photographs into smaller and smaller pictures, masks and maps into numbers, and
 * filling. Requests {id, name, …} are answered by {id, result} or {id, problem}.
 */

import { applyRuns } from "../core/runs.js";
import { fillEnclosed, fillSimilar } from "../core/flood.js";

/** Halved until no side is longer than this. */
const SMALLEST = 700;

const fetchOrFail = async (url, headers = {}) => {
  const response = await fetch(url, { headers });
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw { message: body.detail || body.title || response.statusText, status: response.status };
};

const jobs = {
  /** A photograph as ImageBitmaps: the whole one, a half, a quarter … */
  async photograph({ url }) {
    const blob = await (await fetchOrFail(url)).blob();
    let bitmap;
    try {
      bitmap = await createImageBitmap(blob);
    } catch {
      throw { message: "undecodable", status: 422 };
    }
    const levels = [bitmap];
    let last = bitmap;
    while (Math.max(last.width, last.height) > SMALLEST) {
      const size = { width: Math.max(1, last.width >> 1), height: Math.max(1, last.height >> 1) };
      last = halved(last, size);
      levels.push(last);
    }
    return { result: { width: bitmap.width, height: bitmap.height, levels }, transfer: levels };
  },

  /** A mask, whole or a rectangle of it, as values. */
  async mask({ url }) {
    const response = await fetchOrFail(url, { Accept: "application/json" });
    const { x, y, width, height, runs, etag, source } = await response.json();
    const data = new Uint8Array(width * height);
    applyRuns(data, width, height, { x: 0, y: 0, width, height, runs });
    const result = { x, y, width, height, data, source, etag: etag ?? response.headers.get("ETag") };
    return { result, transfer: [data.buffer] };
  },

  /** A small grey map as values, and as a picture whose opacity it is. */
  async map({ url, colour }) {
    const blob = await (await fetchOrFail(url)).blob();
    const bitmap = await createImageBitmap(blob, { premultiplyAlpha: "none", colorSpaceConversion: "none" });
    const { width, height } = bitmap;
    const canvas = new OffscreenCanvas(width, height);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(bitmap, 0, 0);
    const image = context.getImageData(0, 0, width, height);
    const values = new Uint8Array(width * height);
    for (let i = 0; i < values.length; i++) values[i] = image.data[4 * i];
    const result = { width, height, values };
    if (!colour) return { result, transfer: [values.buffer] };
    for (let i = 0; i < values.length; i++) {
      const [red, green, blue, alpha] = heat(values[i] / 255);
      image.data.set([red, green, blue, alpha], 4 * i);
    }
    context.putImageData(image, 0, 0);
    const picture = canvas.transferToImageBitmap();
    return { result: { ...result, picture }, transfer: [values.buffer, picture] };
  },

  async fill({ labels, map, width, height, x, y, tolerance, value }) {
    const patch = map
      ? fillSimilar(map, width, height, x, y, tolerance, value)
      : fillEnclosed(labels, width, height, x, y, value);
    return { result: patch };
  },
};

function halved(source, { width, height }) {
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { alpha: false });
  context.imageSmoothingQuality = "low"; // at exactly one half that is the mean of four pixels
  context.drawImage(source, 0, 0, width, height);
  return canvas.transferToImageBitmap();
}

/** From nothing over violet and orange to a pale yellow: seen on dark and on bright photographs. */
const STOPS = [
  [0, 76, 29, 149, 0],
  [0.12, 91, 33, 182, 70],
  [0.25, 190, 24, 93, 150],
  [0.4, 249, 115, 22, 200],
  [0.6, 253, 230, 138, 230],
];

function heat(share) {
  let i = 1;
  while (i < STOPS.length - 1 && share > STOPS[i][0]) i++;
  const [from, to] = [STOPS[i - 1], STOPS[i]];
  const part = Math.min(1, Math.max(0, (share - from[0]) / (to[0] - from[0])));
  return [1, 2, 3, 4].map((k) => Math.round(from[k] + part * (to[k] - from[k])));
}

self.onmessage = async ({ data }) => {
  const { id, name, ...request } = data;
  try {
    const { result, transfer = [] } = await jobs[name](request);
    self.postMessage({ id, result }, { transfer });
  } catch (error) {
    self.postMessage({ id, problem: { message: String(error?.message ?? error), status: error?.status } });
  }
};
