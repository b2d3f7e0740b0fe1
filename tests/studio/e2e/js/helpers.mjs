/** What the tests of the page's modules share. */

/** A number generator that gives the same numbers in every run. @param {number} seed */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** @param {() => number} next @param {number} most excluded */
export const below = (next, most) => Math.floor(next() * most);

/** Where the page's modules are. @param {string} name */
export const page = (name) =>
  import(new URL(`../../../../src/dgpnet/studio/page/js/core/${name}`, import.meta.url).href);
