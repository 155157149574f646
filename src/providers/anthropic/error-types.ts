/** Types of Anthropic's errors ("Errors: HTTP errors"). In a stream only the type determines the status. */

const statuses: ReadonlyMap<unknown, number> = new Map([
  ['invalid_request_error', 400],
  ['authentication_error', 401],
  ['billing_error', 402],
  ['permission_error', 403],
  ['not_found_error', 404],
  ['request_too_large', 413],
  ['rate_limit_error', 429],
  ['api_error', 500],
  ['timeout_error', 504],
  ['overloaded_error', 529],
]);

/** Types that are more specific than their status: clients get them as the error's code. */
const codes = new Set<unknown>(['billing_error', 'request_too_large', 'timeout_error', 'overloaded_error']);

export function statusOfErrorType(type: unknown): number | undefined {
  return statuses.get(type);
}

export function codeOfErrorType(type: unknown): string | undefined {
  return typeof type === 'string' && codes.has(type) ? type : undefined;
}
