/**
 * Which part of the photograph the canvas shows: a point of the photograph (x, y) is drawn at (x · scale + left,
 * y · scale + top), in pixels of the screen. Plain values; every function gives a new one.
 *
 * @typedef {{scale: number, left: number, top: number}} View
 * @typedef {{width: number, height: number}} Size
 */

/** No closer than this many screen pixels for one of the photograph. */
const CLOSEST = 40;
/** So much of the photograph stays visible, in screen pixels, however far it is moved. */
const LEAST_VISIBLE = 48;

/** The whole photograph, in the middle, with a margin; small ones are enlarged to at most `most`. @returns {View} */
export function fitted(photo, canvas, margin = 24, most = 8) {
  const across = Math.max(1, canvas.width - 2 * margin);
  const down = Math.max(1, canvas.height - 2 * margin);
  const scale = Math.min(across / photo.width, down / photo.height, most);
  return centred(scale, photo, canvas);
}

/** @returns {View} at this scale, in the middle */
export function centred(scale, photo, canvas) {
  return snapped({
    scale,
    left: (canvas.width - photo.width * scale) / 2,
    top: (canvas.height - photo.height * scale) / 2,
  });
}

/** @returns {View} `factor` times larger around a point of the screen that stays where it is */
export function zoomed(view, factor, at, photo, canvas) {
  const least = Math.min(fitted(photo, canvas).scale, 1) / 4;
  const scale = Math.min(CLOSEST, Math.max(least, view.scale * factor));
  const real = scale / view.scale;
  return bounded(
    { scale, left: at.x - (at.x - view.left) * real, top: at.y - (at.y - view.top) * real },
    photo,
    canvas,
  );
}

/** @returns {View} moved by screen pixels */
export function panned(view, dx, dy, photo, canvas) {
  return bounded({ scale: view.scale, left: view.left + dx, top: view.top + dy }, photo, canvas);
}

/** The photograph cannot be lost outside the canvas. @returns {View} */
export function bounded(view, photo, canvas) {
  const keep = (offset, length, room) => {
    const visible = Math.min(LEAST_VISIBLE, length);
    return Math.min(room - visible, Math.max(visible - length, offset));
  };
  return snapped({
    scale: view.scale,
    left: keep(view.left, photo.width * view.scale, canvas.width),
    top: keep(view.top, photo.height * view.scale, canvas.height),
  });
}

/** Whole pixels of the screen, so that a move is a shift of the picture and nothing is blurred. @returns {View} */
function snapped({ scale, left, top }) {
  return { scale, left: Math.round(left), top: Math.round(top) };
}

/** @returns {{x: number, y: number}} the point of the photograph below a point of the screen */
export function toPhoto(view, at) {
  return { x: (at.x - view.left) / view.scale, y: (at.y - view.top) / view.scale };
}

/** @returns {{x: number, y: number}} */
export function toScreen(view, at) {
  return { x: at.x * view.scale + view.left, y: at.y * view.scale + view.top };
}

/** The whole screen pixels that a rectangle of the photograph touches. @returns {import("./rects.js").Rect} */
export function rectToScreen(view, rect) {
  const x = Math.floor(rect.x * view.scale + view.left);
  const y = Math.floor(rect.y * view.scale + view.top);
  return {
    x,
    y,
    width: Math.ceil((rect.x + rect.width) * view.scale + view.left) - x,
    height: Math.ceil((rect.y + rect.height) * view.scale + view.top) - y,
  };
}

/**
 * The pixels of the photograph that a rectangle of the screen shows, clipped.
 * @returns {import("./rects.js").Rect | null}
 */
export function rectToPhoto(view, rect, photo) {
  const left = Math.max(0, Math.floor((rect.x - view.left) / view.scale));
  const top = Math.max(0, Math.floor((rect.y - view.top) / view.scale));
  const right = Math.min(photo.width, Math.ceil((rect.x + rect.width - view.left) / view.scale));
  const bottom = Math.min(photo.height, Math.ceil((rect.y + rect.height - view.top) / view.scale));
  return right > left && bottom > top ? { x: left, y: top, width: right - left, height: bottom - top } : null;
}
