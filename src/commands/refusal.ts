/**
 * A request that is answered with an error. Every refusal of the gateway itself is declared once, here: its stable
 * code, its status and its type. Errors of a provider become refusals through `refusalFromUpstream`.
 */

import type { TranslationRefusal } from '../providers/translate/refusal.ts';
import type { ErrorType } from '../providers/upstream-error.ts';

export interface RefusalFacts {
  readonly status: number;
  readonly type: ErrorType;
  readonly code: string | null;
  readonly message: string;
  readonly param?: string | null;
  /** The provider that produced the error; absent when the gateway itself did. */
  readonly provider?: string;
  readonly retryAfterSeconds?: number;
  /** False when a retry cannot succeed: clients get `x-should-retry: false`. */
  readonly retryHelps?: boolean;
  /** Rate-limit headers of a provider; the client gets them where the gateway has none of its own. */
  readonly rateLimits?: Readonly<Record<string, string>>;
}

export class Refusal extends Error {
  readonly status: number;
  readonly type: ErrorType;
  readonly code: string | null;
  readonly param: string | null;
  readonly provider: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly retryHelps: boolean | undefined;
  readonly rateLimits: Readonly<Record<string, string>> | undefined;

  constructor(facts: RefusalFacts, cause?: unknown) {
    super(facts.message, { cause });
    this.status = facts.status;
    this.type = facts.type;
    this.code = facts.code;
    this.param = facts.param ?? null;
    this.provider = facts.provider;
    this.retryAfterSeconds = facts.retryAfterSeconds;
    this.retryHelps = facts.retryHelps;
    this.rateLimits = facts.rateLimits;
  }

  /** The same refusal for a client that should not retry, because the gateway has. */
  withoutRetry(): Refusal {
    return new Refusal({ ...this, message: this.message, retryHelps: false }, this.cause);
  }

  /** The error envelope, the only form in which the gateway returns an error. */
  envelope(): { error: Record<string, unknown> } {
    const error: Record<string, unknown> = {
      code: this.code,
      message: this.message,
      param: this.param,
      type: this.type,
    };
    if (this.provider !== undefined) error.provider = this.provider;
    return { error };
  }
}

/** The refusal of a translator, or of a check of a request body. */
export function refusedInTranslation(refusal: TranslationRefusal): Refusal {
  return new Refusal({ ...refusal, type: refusal.status === 404 ? 'not_found_error' : 'invalid_request_error' });
}

const invalid = (code: string | null, message: string, param: string | null = null): RefusalFacts => ({
  status: 400,
  type: 'invalid_request_error',
  code,
  message,
  param,
});

/** Every refusal that the gateway itself makes. */
export const refusals = {
  malformedJson: (detail: string) =>
    new Refusal(invalid('invalid_json', `The request body is not valid JSON: ${detail}`)),
  nestedTooDeeply: () =>
    new Refusal(invalid('nested_too_deeply', 'The request body is nested too deeply to be worked with.')),
  /**
   * Codes are the same on every route: a parameter with a wrong value has `invalid_value` unless another code is
   * given.
   */
  invalidRequest: (message: string, param: string | null, code = param === null ? null : 'invalid_value') =>
    new Refusal(invalid(code, message, param)),
  missingParameter: (name: string) => new Refusal(invalid('missing_required_parameter', `'${name}' is missing.`, name)),
  unknownParameter: (name: string) =>
    new Refusal(invalid('unknown_parameter', `'${name}' is not a field of this request.`, name)),
  invalidUserPath: (name: string, why: string) =>
    new Refusal(invalid('invalid_user_path', `The user path in '${name}' ${why}.`, name)),
  unsupportedParameter: (param: string, why: string) =>
    new Refusal(invalid('unsupported_parameter', `'${param}' cannot be honoured: ${why}`, param)),
  missingCredentials: () =>
    new Refusal({
      status: 401,
      type: 'authentication_error',
      code: 'missing_credentials',
      message: 'No API key given: send it as "Authorization: Bearer <key>" or as "x-api-key: <key>".',
    }),
  malformedAuthorization: () =>
    new Refusal({
      status: 401,
      type: 'authentication_error',
      code: 'malformed_authorization',
      message: 'The Authorization header must have the form "Bearer <key>".',
    }),
  wrongKey: () =>
    new Refusal({
      status: 401,
      type: 'authentication_error',
      code: 'invalid_api_key',
      message: 'The API key is not valid.',
    }),
  noHost: () => new Refusal(invalid('missing_host', 'An HTTP/1.1 request must have a Host header.')),
  unknownRoute: (method: string, path: string) =>
    new Refusal({
      status: 404,
      type: 'not_found_error',
      code: 'unknown_route',
      message: `There is no ${method} ${path} here.`,
    }),
  wrongMethod: (method: string, path: string, allowed: readonly string[]) =>
    new Refusal({
      status: 405,
      type: 'invalid_request_error',
      code: 'method_not_allowed',
      message: `${path} has no ${method}. It has ${allowed.join(', ')}.`,
    }),
  modelNotFound: (selector: string) =>
    new Refusal({
      status: 404,
      type: 'not_found_error',
      code: 'model_not_found',
      message: `The model '${selector}' does not exist, or no configured provider serves it. GET /v1/models lists what there is.`,
      param: 'model',
    }),
  unknownProvider: (provider: string) =>
    new Refusal(invalid('unknown_provider', `There is no provider named '${provider}'.`, 'provider')),
  responseNotFound: (id: string) =>
    new Refusal({
      status: 404,
      type: 'not_found_error',
      code: null,
      message: `The response '${id}' was not found.`,
    }),
  previousResponseNotFound: (id: string) =>
    new Refusal({
      status: 404,
      type: 'not_found_error',
      code: 'previous_response_not_found',
      message: `The previous response '${id}' was not found, or was created with "store": false.`,
      param: 'previous_response_id',
    }),
  chainTooLong: (limit: number) =>
    new Refusal(
      invalid(
        'previous_response_chain_too_long',
        `The chain behind 'previous_response_id' has more than ${limit} responses.`,
        'previous_response_id',
      ),
    ),
  unsupportedOperation: (message: string) =>
    new Refusal({
      status: 501,
      type: 'invalid_request_error',
      code: 'unsupported_response_operation',
      message,
      retryHelps: false,
    }),
  /** An endpoint that the provider does not have. */
  unsupportedEndpoint: (message: string) =>
    new Refusal({
      status: 501,
      type: 'invalid_request_error',
      code: 'unsupported_operation',
      message,
      retryHelps: false,
    }),
  formExpected: (got: string) =>
    new Refusal(invalid('form_expected', `The request body must be multipart/form-data, not ${got}.`)),
  invalidForm: (detail: string) =>
    new Refusal(invalid('invalid_form', `The request body is not a form that can be read: ${detail}.`)),
  controlFieldAsFile: (name: string) =>
    new Refusal(
      invalid(
        'control_field_as_file',
        `'${name.slice(0, 100)}' must be a text field of the form, not a file.`,
        name.slice(0, 100),
      ),
    ),
  lateField: (name: string) =>
    new Refusal(invalid('late_field', `'${name}' decides who gets the form, so it must come before the file.`, name)),
  fileBeforeFields: (limitBytes: number) =>
    new Refusal(
      invalid(
        'late_field',
        `A file of more than ${limitBytes} bytes must come after the fields that decide who gets the form ('model' or 'provider').`,
      ),
    ),
  lateFileName: (name: string) =>
    new Refusal(
      invalid('late_field', `'${name}' names a stored file, so it must come before the file that is sent.`, name),
    ),
  fileNotFound: (id: string) =>
    new Refusal({ status: 404, type: 'not_found_error', code: null, message: `The file '${id}' was not found.` }),
  batchNotFound: (id: string) =>
    new Refusal({ status: 404, type: 'not_found_error', code: null, message: `The batch '${id}' was not found.` }),
  circuitOpen: (provider: string, retryAfterSeconds: number) =>
    new Refusal({
      status: 503,
      type: 'provider_error',
      code: 'provider_unavailable',
      message: `The provider '${provider}' is temporarily unavailable after repeated failures.`,
      provider,
      retryAfterSeconds,
    }),
  /** Every credential of the provider is paused for the model, because the provider requested it. */
  rateLimitedByProvider: (provider: string, model: string, retryAfterSeconds: number) =>
    new Refusal({
      status: 429,
      type: 'rate_limit_error',
      code: 'rate_limit_exceeded',
      message: `The provider '${provider}' limits the rate of requests for '${model}' and is not called for it until Retry-After has passed.`,
      provider,
      retryAfterSeconds,
    }),
  badAnswer: (provider: string, message: string, code: string | null = 'bad_provider_answer') =>
    new Refusal({ status: 502, type: 'provider_error', code, message, provider }),
  logUnavailable: (cause?: unknown) =>
    new Refusal(
      {
        status: 503,
        type: 'internal_error',
        code: 'log_unavailable',
        message: 'The event log cannot be written, so the request was not served. Nothing was half-done.',
        retryAfterSeconds: 1,
      },
      cause,
    ),
  /** The provider was called, so a retry may be charged twice: the client decides. */
  answerNotRecorded: (cause: unknown) =>
    new Refusal(
      {
        status: 503,
        type: 'internal_error',
        code: 'log_unavailable',
        message: 'The provider was called, and its answer cannot be written to the event log, so it is not sent.',
        retryHelps: false,
      },
      cause,
    ),
  idempotencyKeyReused: () =>
    new Refusal({
      status: 409,
      type: 'invalid_request_error',
      code: 'idempotency_key_reused',
      message: 'This Idempotency-Key was used for a request with another body. Use a new key for a new request.',
      param: 'Idempotency-Key',
      retryHelps: false,
    }),
  answerNotKept: () =>
    new Refusal({
      status: 409,
      type: 'invalid_request_error',
      code: 'idempotent_answer_not_kept',
      message:
        'This Idempotency-Key was answered before, but the bodies of answers are not recorded here, so it cannot be given again.',
      param: 'Idempotency-Key',
      retryHelps: false,
    }),
  notCancellable: () =>
    new Refusal(
      invalid(
        'response_not_cancellable',
        'Only a response that was created with "background": true can be cancelled.',
        'response_id',
      ),
    ),
  stopping: () =>
    new Refusal({
      status: 503,
      type: 'internal_error',
      code: 'stopping',
      message: 'The gateway is stopping and takes no new requests.',
      retryAfterSeconds: 5,
    }),
  overloaded: (limit: number) =>
    new Refusal({
      status: 503,
      type: 'internal_error',
      code: 'overloaded',
      message: `The gateway serves ${limit} requests at the same time and takes no more for the moment.`,
      retryAfterSeconds: 1,
    }),
  bodiesTooLarge: (limitBytes: number) =>
    new Refusal({
      status: 503,
      type: 'internal_error',
      code: 'overloaded',
      message: `Large request bodies take the ${limitBytes} bytes of memory that the gateway has for them. Try again soon.`,
      retryAfterSeconds: 1,
    }),
  bodyTooLarge: (limitBytes: number) =>
    new Refusal({
      status: 413,
      type: 'invalid_request_error',
      code: 'request_too_large',
      message: `The request body is larger than the limit of ${limitBytes} bytes.`,
    }),
  unsupportedEncoding: (encoding: string, accepted: string) =>
    new Refusal({
      status: 415,
      type: 'invalid_request_error',
      code: 'unsupported_content_encoding',
      message: `The request body is encoded as '${encoding.slice(0, 100)}', which is not one of ${accepted}, or more than two of them.`,
      param: 'Content-Encoding',
    }),
  malformedEncoding: (detail: string) =>
    new Refusal(
      invalid(
        'malformed_content_encoding',
        `The request body is not encoded as Content-Encoding states: ${detail}.`,
        'Content-Encoding',
      ),
    ),
  featureUnavailable: (message: string) =>
    new Refusal({
      status: 503,
      type: 'invalid_request_error',
      code: 'feature_unavailable',
      message,
      retryHelps: false,
    }),
  analyticsUnavailable: (cause: Error) =>
    new Refusal(
      {
        status: 503,
        type: 'internal_error',
        code: 'analytics_unavailable',
        message: `The figures cannot be told at the moment: ${cause.message}. Ask for less, or later.`,
        retryAfterSeconds: 2,
      },
      cause,
    ),
  sqlRefused: (message: string) => new Refusal(invalid('sql_refused', message, 'query')),
  sqlOverLimit: (message: string) => new Refusal(invalid('sql_over_limit', message, 'query')),
  requestCanceled: () =>
    new Refusal({
      status: 499,
      type: 'invalid_request_error',
      code: 'request_canceled',
      message: 'The client went before it had its answer.',
    }),
  recalculationRunning: () =>
    new Refusal({
      status: 409,
      type: 'invalid_request_error',
      code: 'recalculation_running',
      message: 'The past is being priced anew already. Wait until that has ended.',
    }),
  batchNotReady: (id: string, status: string) =>
    new Refusal({
      status: 409,
      type: 'invalid_request_error',
      code: 'batch_not_ready',
      message: `The batch '${id}' is '${status}': it has results when it is over. Ask for it again later.`,
    }),
  changedMeanwhile: (what: string) =>
    new Refusal({
      status: 409,
      type: 'invalid_request_error',
      code: 'changed_meanwhile',
      message: `'${what}' was changed by others again and again in the meantime. Nothing was done; try again.`,
    }),
  revisionMismatch: (what: string, revision: bigint | 'noStream') =>
    new Refusal({
      status: 409,
      type: 'invalid_request_error',
      code: 'revision_mismatch',
      message:
        revision === 'noStream'
          ? `'${what}' does not exist, so it is not at the revision that If-Match names. Nothing was changed.`
          : `'${what}' is at revision ${revision}, not at the one that If-Match names. Nothing was changed.`,
      param: 'If-Match',
      retryHelps: false,
    }),
  dashboardAccessDenied: () =>
    new Refusal({
      status: 403,
      type: 'permission_error',
      code: 'dashboard_access_denied',
      message: 'This key has no access to the admin API. It takes the master key, or a key with dashboard access.',
      retryHelps: false,
    }),
  previousSecretDenied: () =>
    new Refusal({
      status: 403,
      type: 'permission_error',
      code: 'previous_secret_denied',
      message:
        'The secret of this key was rotated. Until its grace period ends the previous one is accepted for model requests, but not for administration. Use the new secret.',
      retryHelps: false,
    }),
  adminScopeDenied: () =>
    new Refusal({
      status: 403,
      type: 'permission_error',
      code: 'admin_scope_denied',
      message: 'This endpoint concerns the whole gateway, and the key administers only its own user path.',
      retryHelps: false,
    }),
  metricsDenied: () =>
    new Refusal({
      status: 403,
      type: 'permission_error',
      code: 'metrics_denied',
      message:
        'Metrics are of the whole gateway. They take METRICS_KEY, the master key, or a key that administers the whole gateway.',
      retryHelps: false,
    }),
  hostNotAllowed: (host: string) =>
    new Refusal({
      status: 403,
      type: 'permission_error',
      code: 'host_not_allowed',
      message: `The gateway asks for no key, so it answers only under its own host names, and '${host.slice(0, 255)}' is none of them. Add it to GATEWAY_ALLOWED_HOSTS, or set GATEWAY_MASTER_KEY.`,
      retryHelps: false,
    }),
  crossSiteRefused: () =>
    new Refusal({
      status: 403,
      type: 'permission_error',
      code: 'cross_site_refused',
      message:
        'The gateway asks for no key, so it refuses requests that a web page of another origin has caused. Set GATEWAY_MASTER_KEY to use it from web pages.',
      retryHelps: false,
    }),
  setByHigherAdministrator: (what: string, value: string) =>
    new Refusal({
      status: 403,
      type: 'permission_error',
      code: 'set_by_higher_administrator',
      message: `${what} was set to ${value} by a higher administrator. It can be made tighter or set to that again, but not relaxed, reset or removed.`,
      retryHelps: false,
    }),
  exceedsOwnAccess: (param: string, why: string) =>
    new Refusal({
      status: 403,
      type: 'permission_error',
      code: 'exceeds_own_access',
      message: `'${param}' would give more than the key that asks has: ${why}.`,
      param,
      retryHelps: false,
    }),
  passthroughScopeDenied: (method: string, path: string) =>
    new Refusal({
      status: 403,
      type: 'permission_error',
      code: 'passthrough_scope_denied',
      message: `${method} ${path} of a provider may concern what other callers stored there, so it is for keys that see everything. Stored objects are at /v1: files, batches, responses, conversations.`,
      retryHelps: false,
    }),
  storedReferenceDenied: (param: string) =>
    new Refusal({
      status: 403,
      type: 'permission_error',
      code: 'stored_reference_denied',
      message: `'${param}' names what is stored at the provider, which does not know whose it is, so it is for keys that see everything.`,
      param,
      retryHelps: false,
    }),
  userPathOutOfScope: (path: string, scope: string, param: string) =>
    new Refusal({
      status: 403,
      type: 'permission_error',
      code: 'user_path_out_of_scope',
      message: `'${param}' is '${path}', and the key administers only '${scope}' and what is below it.`,
      param,
      retryHelps: false,
    }),
  notFound: (what: string, id: string, code: string | null = null) =>
    new Refusal({
      status: 404,
      type: 'not_found_error',
      code,
      message: `The ${what} '${id}' was not found.`,
    }),
  userManaged: (path: string) =>
    new Refusal({
      status: 409,
      type: 'invalid_request_error',
      code: 'user_managed',
      message: `The policy of '${path}' is declared in the configuration, and can be changed only there.`,
      param: 'user_path',
      retryHelps: false,
    }),
  keyNotActive: (id: string) =>
    new Refusal({
      status: 401,
      type: 'authentication_error',
      code: 'key_not_active',
      message: `The key '${id}', with which this was asked for, is not accepted any more.`,
      retryHelps: false,
    }),
  /**
   * The client has the id of a response that the gateway itself generates, so the request cannot move to this
   * provider.
   */
  backgroundElsewhere: (provider: string) =>
    new Refusal(
      invalid(
        'background_elsewhere',
        `The provider '${provider}' makes background responses itself, and this one was begun elsewhere.`,
        'background',
      ),
    ),
  virtualModelManaged: (source: string) =>
    new Refusal({
      status: 409,
      type: 'invalid_request_error',
      code: 'virtual_model_managed',
      message: `The virtual model '${source}' is declared in the configuration, and can be changed only there.`,
      param: 'source',
      retryHelps: false,
    }),
  virtualModelExists: (source: string) =>
    new Refusal({
      status: 409,
      type: 'invalid_request_error',
      code: 'virtual_model_exists',
      message: `There is a virtual model '${source}' already, so no other can be given its name.`,
      param: 'source',
      retryHelps: false,
    }),
  virtualModelInUse: (source: string, users: readonly string[]) =>
    new Refusal({
      status: 409,
      type: 'invalid_request_error',
      code: 'virtual_model_in_use',
      message: `Other virtual models lead to '${source}': ${users.map((user) => `'${user}'`).join(', ')}. Change them first.`,
      param: 'source',
      retryHelps: false,
    }),
  /** For requests that name a provider and no model. */
  providerAccessDenied: (provider: string) =>
    new Refusal({
      ...invalid(
        'model_access_denied',
        `The provider '${provider}' is not available here for this key or user path, or not as a whole.`,
        'provider',
      ),
      retryHelps: false,
    }),
  modelAccessDenied: (selector: string, why: 'not available' | 'not available for this key' = 'not available') =>
    new Refusal({
      ...invalid('model_access_denied', `The model '${selector}' is ${why}.`, 'model'),
      retryHelps: false,
    }),
  budgetManaged: (name: string) =>
    new Refusal({
      status: 409,
      type: 'invalid_request_error',
      code: 'budget_managed',
      message: `The budget '${name}' is declared in the configuration, and is changed there.`,
      retryHelps: false,
    }),
  rateLimitManaged: (name: string) =>
    new Refusal({
      status: 409,
      type: 'invalid_request_error',
      code: 'rate_limit_managed',
      message: `The rate limit '${name}' is declared in the configuration, and is changed there.`,
      retryHelps: false,
    }),
  budgetExceeded: (message: string, retryAfterSeconds: number) =>
    new Refusal({
      status: 429,
      type: 'rate_limit_error',
      code: 'budget_exceeded',
      message,
      retryAfterSeconds,
      retryHelps: false,
    }),
  /** A provider's own operation that starts work which continues after its answer, under a budget. */
  unmetered: () =>
    new Refusal({
      ...invalid(
        'unmetered_operation',
        'This starts work that goes on after its answer and that no budget can count. Create batches at /v1/batches.',
      ),
      retryHelps: false,
    }),
  /** Work whose cost cannot be counted, under a budget. */
  priceUnknown: (model: string) =>
    new Refusal({
      ...invalid(
        'price_unknown',
        `There is no price for '${model}', so that a batch of it cannot be let through under a budget.`,
        'input_file_id',
      ),
      retryHelps: false,
    }),
  rateLimitExceeded: (message: string, retryAfterSeconds: number) =>
    new Refusal({ status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded', message, retryAfterSeconds }),
  itemNotFound: (id: string) =>
    new Refusal({
      status: 404,
      type: 'not_found_error',
      code: 'item_not_found',
      message: `Item '${id}' was not found.`,
      param: 'input',
    }),
  conversationNotFound: (id: string, param: string | null = null) =>
    new Refusal({
      status: 404,
      type: 'not_found_error',
      code: 'conversation_not_found',
      message: `The conversation '${id}' was not found.`,
      param,
    }),
  conversationItemNotFound: (id: string, conversationId: string) =>
    new Refusal({
      status: 404,
      type: 'not_found_error',
      code: 'item_not_found',
      message: `The conversation item '${id}' was not found in conversation '${conversationId}'.`,
    }),
  /** OpenAI's own type for this error: the request is at fault, not the list. */
  unknownAfter: (id: string, holder: string) =>
    new Refusal({
      status: 404,
      type: 'invalid_request_error',
      code: 'item_not_found',
      message: `The item '${id}' was not found in '${holder}'.`,
      param: 'after',
    }),
  conversationFull: (why: string, param: string) =>
    new Refusal(invalid('conversation_full', `The conversation cannot take more: ${why}`, param)),
  duplicateItem: (id: string, param: string) =>
    new Refusal(
      invalid(
        'duplicate_item',
        `The conversation holds an item '${id}' already. Leave it out, or give the new one another id.`,
        param,
      ),
    ),
  internal: (cause: unknown) =>
    new Refusal(
      {
        status: 500,
        type: 'internal_error',
        code: 'internal_error',
        message: 'The gateway failed to handle the request. The details are in its own log.',
      },
      cause,
    ),
} as const;
