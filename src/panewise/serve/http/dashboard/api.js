// Requests to the server that served the page, with the token of this tab. If the server refuses a request, an ApiError
// holds its message. If the server cannot be reached, Unreachable is thrown.

const TOKEN_KEY = "panewise.token";
let refused = () => {};

export class Unreachable extends Error {}

export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.message);
    this.status = status;
    this.hint = problem.hint ?? null;
    this.at = problem.at ?? null;
    this.text = problem.text ?? problem.message;
  }
}

export function token() {
  return sessionStorage.getItem(TOKEN_KEY) ?? "";
}

export function useToken(text) {
  if (text) sessionStorage.setItem(TOKEN_KEY, text);
  else sessionStorage.removeItem(TOKEN_KEY);
}

/** `listener` is called whenever the server answers 401: the token is missing or wrong. */
export function onRefused(listener) {
  refused = listener;
}

export const get = (path) => request("GET", path);
export const post = (path, body) => request("POST", path, body);
export const remove = (path) => request("DELETE", path);

export function queryPath(name, ...parts) {
  return ["/v1/queries", encodeURIComponent(name), ...parts].join("/");
}

async function request(method, path, body) {
  const headers = { Accept: "application/json" };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      // A server that hangs counts as unreachable; the next poll asks again.
      signal: AbortSignal.timeout(method === "GET" ? 10_000 : 60_000),
    });
  } catch (error) {
    throw new Unreachable(String(error));
  }
  if (response.ok) return response.status === 204 ? null : response.json();
  const error = new ApiError(response.status, await problemOf(response));
  if (response.status === 401) refused(error);
  throw error;
}

async function problemOf(response) {
  try {
    const { error } = await response.json();
    if (error?.message) return error;
  } catch {
    // The answer of a proxy may not be JSON.
  }
  return { message: `the server answered ${response.status} ${response.statusText}` };
}
