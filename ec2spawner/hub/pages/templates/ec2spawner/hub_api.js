// Calls of the hub's API by our pages.
const { base_url: BASE, xsrf_token: XSRF } = window.jhdata;
const TIMEOUT_MS = 20000;

/** The answer of a call; throws an Error whose message is for people. */
async function request(path, options) {
  let reply;
  try {
    reply = await fetch(BASE + "api/" + path, {
      headers: { "X-XSRFToken": XSRF, "Content-Type": "application/json" },
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...options,
    });
  } catch {
    throw new Error("The hub does not answer");
  }
  if (reply.ok) return reply;
  const body = jsonIn(await reply.text());
  const why = (body && body.message) || "The hub answered " + reply.status;
  const isLoggedOut = reply.status === 403 && /credentials|xsrf/i.test(why);
  throw new Error(isLoggedOut ? "Your login has ended: reload this page to log in again" : why);
}

const sentence = (message) => message.charAt(0).toUpperCase() + message.slice(1).replace(/\.$/, "") + ".";

const jsonIn = (text) => (text.startsWith("{") ? JSON.parse(text) : null);

/** The same, as JSON; null where the answer has none. */
const call = async (path, options) => jsonIn(await (await request(path, options)).text());

/** The path of a server: `users/ann/servers/lab`. */
const pathOfServer = (user, server) =>
  "users/" + encodeURIComponent(user) + (server ? "/servers/" + encodeURIComponent(server) : "/server");

/** Stops a server; `sleep` says whether its variables are saved. */
const stopServer = (user, server, sleep) =>
  request(pathOfServer(user, server), { method: "DELETE", body: JSON.stringify({ sleep }) });
