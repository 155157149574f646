/** Headers whose values are secrets: they are neither recorded nor shown. Lower-case names. */
export const CREDENTIAL_HEADERS: ReadonlySet<string> = new Set([
  'authorization',
  'proxy-authorization',
  'x-api-key',
  'api-key',
  'x-goog-api-key',
  'cookie',
  'set-cookie',
  'x-auth-token',
  'x-access-token',
]);
