/**
 * The server's answers. Every failure is a `Problem`: with `status` where the server said no, without where it is
 * lost.
 */

const BASE = new URL("/api/v1/", location.href).pathname;
/** A request that has no answer after so long counts as lost (milliseconds). */
const PATIENCE = 30000;

export class Problem extends Error {
  /** @param {string} message @param {number} [status] @param {any} [body] what the server sent */
  constructor(message, status, body) {
    super(message);
    this.status = status;
    this.body = body;
  }

  get lost() {
    return !this.status;
  }
}

/** @param {string} path below the API's root @param {Record<string, any>} [query] what is null is left out */
export function address(path, query = {}) {
  const text = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== null && value !== undefined) text.set(name, value);
  const tail = text.toString();
  return BASE + path + (tail ? `?${tail}` : "");
}

/** @param {string} id @param {string} [part] */
export const ofPhotograph = (id, part = "") => `photographs/${encodeURIComponent(id)}${part ? `/${part}` : ""}`;

/**
 * @param {string} method @param {string} path
 * @param {{query?: Record<string, any>, body?: any, headers?: Record<string, string>, signal?: AbortSignal,
 *          patience?: number, keepalive?: boolean}} [options] `body`: a Blob (a file) as it is, anything else as JSON
 * @returns {Promise<any>} the JSON of the answer; null where it has none
 */
export async function ask(method, path, { query, body, headers = {}, signal, patience = PATIENCE, keepalive } = {}) {
  const raw = body instanceof Blob;
  const timeout = AbortSignal.timeout(patience);
  let response;
  try {
    response = await fetch(address(path, query), {
      method,
      headers: { Accept: "application/json", ...(body !== undefined && !raw ? JSON_BODY : {}), ...headers },
      body: body === undefined || raw ? body : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      keepalive,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(String(error));
  }
  if (!response.ok) throw await problemOf(response);
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(String(error)); // the connection broke in the middle of the answer
  }
}

const JSON_BODY = { "Content-Type": "application/json" };

/** @param {Response} response */
async function problemOf(response) {
  const body = await response.json().catch(() => ({}));
  return new Problem(body.detail || body.title || response.statusText, response.status, body);
}

export const get = (path, query, options) => ask("GET", path, { query, ...options });
export const post = (path, body = {}, options) => ask("POST", path, { body, ...options });
export const put = (path, body, options) => ask("PUT", path, { body, ...options });
export const patch = (path, body, options) => ask("PATCH", path, { body, ...options });
export const remove = (path, options) => ask("DELETE", path, options);
