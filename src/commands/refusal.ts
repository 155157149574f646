/**
 * A request that is answered with an error. Every refusal of the gateway itself is declared once, here: its stable
 * code, its status and its type. Errors of a provider become refusals through `refusalFromUpstream`.
 */
import { LogUnavailable } from '../events/log.ts';
import { isObject } from '../json/is-object.ts';
import type { TranslationRefusal } from '../providers/translate/json.ts';
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

  /** The same refusal with a code where it has none. */
  withCode(code: string): Refusal {
    return this.code !== null ? this : new Refusal({ ...this, message: this.message, code }, this.cause);
  }

  /** The same refusal where the refused value is a member of a larger body. */
  within(member: string): Refusal {
    const param = this.param === null ? member : `${member}.${this.param}`;
    return new Refusal({ ...this, message: this.message, param }, this.cause);
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

/** The type of a refusal that states no other; for further statuses it is `invalid_request_error`. */
const typeOfStatus: Readonly<Record<number, ErrorType>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  500: 'internal_error',
  502: 'provider_error',
  503: 'internal_error',
};

function refuse(
  status: number,
  code: string | null,
  message: string,
  more: Partial<RefusalFacts> = {},
  cause?: unknown,
): Refusal {
  return new Refusal({ status, type: typeOfStatus[status] ?? 'invalid_request_error', code, message, ...more }, cause);
}

const invalid = (code: string | null, message: string, param: string | null = null) =>
  refuse(400, code, message, { param });
const denied = (code: string, message: string, param: string | null = null) =>
  refuse(403, code, message, { param, retryHelps: false });
const missing = (code: string | null, message: string, param: string | null = null) =>
  refuse(404, code, message, { param });
const conflict = (code: string, message: string, param: string | null = null) =>
  refuse(409, code, message, { param, retryHelps: false });

/** The request can be repeated after that time. */
const busy = (code: string, message: string, retryAfterSeconds = 1, cause?: unknown) =>
  refuse(503, code, message, { retryAfterSeconds }, cause);
/** A retry could repeat what may have been done: only the client can find out. */
const inDoubt = (message: string, cause: unknown) =>
  refuse(503, 'log_unavailable', message, { retryHelps: false, retryAfterSeconds: 1 }, cause);
const failed = (what: string) =>
  refuse(500, 'plugin_failure', `${what}, so the request was not served.`, { retryHelps: false });
const managed =
  (what: string, code: string, param: string | null = null) =>
  (name: string) =>
    conflict(code, `The ${what} '${name}' is declared in the configuration and can be changed only there.`, param);

/** For a name that a client chose. */
function shortened(name: string): string {
  return name.length <= 100 ? name : `${name.slice(0, 100)}…`;
}

/** Of a provider that lacks the whole operation. */
export const UNSUPPORTED_OPERATION = 'unsupported_operation';

/** Every refusal that the gateway itself makes. */
export const refusals = {
  malformedJson: (detail: string) => invalid('invalid_json', `The request body is not valid JSON: ${detail}`),
  nestedTooDeeply: () => invalid('nested_too_deeply', 'The request body is nested too deeply to be worked with.'),
  repeatedMember: (name: string) =>
    invalid(
      'repeated_member',
      `The request body has the member '${shortened(name)}' more than once in one object. Send it once: providers differ in which one they take.`,
    ),
  bodyTooComplex: (bound: 'depth' | 'entries' | 'objects' | 'values', limit: string, setting: string) =>
    bound === 'depth'
      ? invalid('nested_too_deeply', `The request body is nested more deeply than ${limit} (${setting}).`)
      : invalid('body_too_complex', `The request body has more than ${limit} (${setting}).`),
  /**
   * Codes are the same on every route: a parameter with a wrong value has `invalid_value` unless another code is
   * given.
   */
  invalidRequest: (message: string, param: string | null, code = param === null ? null : 'invalid_value') =>
    invalid(code, message, param),
  missingParameter: (name: string) => invalid('missing_required_parameter', `'${name}' is missing.`, name),
  unknownParameter: (name: string) => invalid('unknown_parameter', `'${name}' is not a field of this request.`, name),
  invalidUserPath: (name: string, why: string) =>
    invalid('invalid_user_path', `The user path in '${name}' ${why}.`, name),
  unsupportedParameter: (param: string, why: string) =>
    invalid('unsupported_parameter', `'${param}' cannot be honoured: ${why}`, param),
  missingCredentials: () =>
    refuse(
      401,
      'missing_credentials',
      'No API key given: send it as "Authorization: Bearer <key>" or as "x-api-key: <key>".',
    ),
  malformedAuthorization: () =>
    refuse(401, 'malformed_authorization', 'The Authorization header must have the form "Bearer <key>".'),
  wrongKey: () => refuse(401, 'invalid_api_key', 'The API key is not valid.'),
  clientSecretExpired: () =>
    refuse(401, 'client_secret_expired', 'The client secret has expired. Create another one to begin a session.'),
  clientSecretElsewhere: () =>
    refuse(
      401,
      'client_secret_not_accepted',
      'A client secret begins realtime sessions, and is accepted nowhere else.',
    ),
  /** This gateway may have missed a change of the key, which another gateway has confirmed. */
  notCurrent: () =>
    busy(
      'log_unavailable',
      'The gateway cannot reach the engine of its event log, so it does not know whether the API key is still valid.',
    ),
  /** Of several workers, none serves requests at the moment. */
  noWorker: () =>
    busy('not_ready', 'No worker of the gateway serves requests at the moment. The request was not served.'),
  noHost: () => invalid('missing_host', 'An HTTP/1.1 request must have a Host header.'),
  unknownRoute: (method: string, path: string) =>
    missing('unknown_route', `The gateway has no route ${method} ${path}.`),
  wrongMethod: (method: string, path: string, allowed: readonly string[]) =>
    refuse(405, 'method_not_allowed', `${path} does not support ${method}. It supports ${allowed.join(', ')}.`),
  modelNotFound: (selector: string) =>
    missing(
      'model_not_found',
      `The model '${selector}' does not exist, or no configured provider serves it. GET /v1/models lists the available models.`,
      'model',
    ),
  unknownProvider: (provider: string) =>
    invalid('unknown_provider', `There is no provider named '${provider}'.`, 'provider'),
  responseNotFound: (id: string) => missing(null, `The response '${id}' was not found.`),
  /** @param lost the response of its chain that was not found */
  previousResponseNotFound: (id: string, lost = id) =>
    missing(
      'previous_response_not_found',
      lost === id
        ? `The previous response '${id}' was not found, or was created with "store": false.`
        : `The previous response '${id}' continues '${lost}', which was not found, or was created with "store": false: send the whole input.`,
      'previous_response_id',
    ),
  approvalUsed: (id: string) =>
    conflict(
      'approval_already_used',
      `The approval request '${id}' was answered: it allows one call, and none after a refusal.`,
      'input',
    ),
  gatewayServerNotFound: (slug: string, param: string) =>
    missing('mcp_server_not_found', `The MCP server '${slug}' does not exist, or this key may not use it.`, param),
  chainTooLong: (limit: number) =>
    invalid(
      'previous_response_chain_too_long',
      `The chain behind 'previous_response_id' has more than ${limit} responses.`,
      'previous_response_id',
    ),
  unsupportedOperation: (message: string) =>
    refuse(501, 'unsupported_response_operation', message, { retryHelps: false }),
  /** An endpoint that the provider does not have. */
  unsupportedEndpoint: (message: string) => refuse(501, UNSUPPORTED_OPERATION, message, { retryHelps: false }),
  formExpected: (got: string) => invalid('form_expected', `The request body must be multipart/form-data, not ${got}.`),
  invalidForm: (detail: string) => invalid('invalid_form', `The request body is not a readable form: ${detail}.`),
  controlFieldAsFile: (name: string) =>
    invalid(
      'control_field_as_file',
      `'${name.slice(0, 100)}' must be a text field of the form, not a file.`,
      name.slice(0, 100),
    ),
  lateField: (name: string) =>
    invalid('late_field', `'${name}' selects the provider, so it must come before the file.`, name),
  fileBeforeFields: (limitBytes: number) =>
    invalid(
      'late_field',
      `A file of more than ${limitBytes} bytes must come after the fields that select the provider ('model' or 'provider').`,
    ),
  lateFileName: (name: string) =>
    invalid('late_field', `'${name}' names a stored file, so it must come before the file that is sent.`, name),
  fileNotFound: (id: string) => missing(null, `The file '${id}' was not found.`),
  batchNotFound: (id: string) => missing(null, `The batch '${id}' was not found.`),
  circuitOpen: (provider: string, model: string, retryAfterSeconds: number) =>
    refuse(
      503,
      'provider_unavailable',
      `The provider '${provider}' is temporarily unavailable${model === '' ? '' : ` for '${model}'`} after repeated failures. The gateway calls it again in ${retryAfterSeconds} s.`,
      { type: 'provider_error', provider, retryAfterSeconds },
    ),
  /** Every credential of the provider is paused for the model, because the provider requested it. */
  rateLimitedByProvider: (provider: string, model: string, retryAfterSeconds: number) =>
    refuse(
      429,
      'rate_limit_exceeded',
      `The provider '${provider}' limits the rate of requests for '${model}'. The gateway calls it for this model again after Retry-After.`,
      { provider, retryAfterSeconds },
    ),
  badAnswer: (provider: string, message: string, code: string | null = 'bad_provider_answer') =>
    refuse(502, code, message, { provider }),
  /**
   * Nothing was recorded, or it is not known whether it was: then only the client can find out before it retries, when
   * the log may be back.
   */
  logUnavailable: (cause?: LogUnavailable) =>
    cause?.outcome === 'unknown'
      ? inDoubt(
          'The event log has not confirmed this request in time: it is not known whether it was recorded, and a change that it requested may be in force. Check that before you send it again.',
          cause,
        )
      : busy(
          'log_unavailable',
          'The event log cannot be written, so the request was not served. Nothing was half-done.',
          1,
          cause,
        ),
  /** The provider was called, so a retry may be charged twice: the client decides. */
  answerNotRecorded: (cause: unknown) =>
    inDoubt(
      cause instanceof LogUnavailable && cause.outcome === 'unknown'
        ? 'The provider was called, and the event log has not confirmed its answer, so it is not sent. It may be recorded nevertheless.'
        : 'The provider was called, and its answer cannot be written to the event log, so it is not sent.',
      cause,
    ),
  /** Another gateway may have taken the response over, or takes it over later. */
  backgroundNotConfirmed: (responseId: string, cause: unknown) =>
    inDoubt(
      `It is not known whether the background response '${responseId}' was recorded; if it was, it may run. Retrieve it by this id before you send the request again.`,
      cause,
    ),
  idempotencyKeyReused: () =>
    conflict(
      'idempotency_key_reused',
      'This Idempotency-Key was used for a request with another body. Use a new key for a new request.',
      'Idempotency-Key',
    ),
  answerNotKept: () =>
    conflict(
      'idempotent_answer_not_kept',
      'This Idempotency-Key was answered before, but the bodies of answers are not recorded here, so it cannot be given again.',
      'Idempotency-Key',
    ),
  notCancellable: () =>
    invalid(
      'response_not_cancellable',
      'Only a response that was created with "background": true can be cancelled.',
      'response_id',
    ),
  unreadableCompaction: (param: string | null) =>
    invalid(
      'invalid_value',
      'The compaction cannot be read: it was made elsewhere or for others, or was changed.',
      param,
    ),
  notCancelledYet: () =>
    busy('not_cancelled_yet', 'The gateway that generates this response was asked to end it, and has not done so yet.'),
  replayNotCancelledYet: () =>
    busy('not_cancelled_yet', 'The gateway that runs it was asked to end it, and has not done so yet.'),
  notAWebSocket: (path: string) =>
    refuse(426, 'upgrade_required', `GET ${path} opens a WebSocket.`, { retryHelps: false }),
  sessionIdle: (ms: number) =>
    invalid('session_idle', `No message came in either direction for ${ms / 1000} s (WEBSOCKET_IDLE_TIMEOUT).`),
  mcpDisabled: () =>
    refuse(503, 'feature_unavailable', 'MCP servers are not served by this gateway (MCP_ENABLED).', {
      type: 'invalid_request_error',
      retryHelps: false,
    }),
  mcpServerNotFound: (slug: string) =>
    missing('mcp_server_not_found', `The MCP server '${shortened(slug)}' was not found.`),
  mcpSessionNotFound: () =>
    missing('mcp_session_not_found', 'The session was not found: it has ended. Begin a new one.', 'Mcp-Session-Id'),
  tooManyMcpSessions: (limit: number) =>
    refuse(429, 'too_many_mcp_sessions', `The key has ${limit} open MCP sessions already.`),
  originNotAllowed: (origin: string) =>
    denied(
      'origin_not_allowed',
      `Web pages of '${shortened(origin)}' may not use MCP servers here. MCP_ALLOWED_ORIGINS names those that may.`,
      'Origin',
    ),
  notAcceptable: (types: string) =>
    refuse(406, 'not_acceptable', `The header Accept has to name ${types}.`, { param: 'Accept', retryHelps: false }),
  toolNotFound: (tool: string) => missing('tool_not_found', `The tool '${shortened(tool)}' was not found.`, 'name'),
  toolWithheld: (tool: string, server: string) =>
    denied(
      'tool_withheld',
      `The server '${server}' has changed the definition of the tool '${shortened(tool)}'. It can be called when an administrator has accepted the change.`,
      'name',
    ),
  tooManySockets: (limit: number) =>
    refuse(429, 'too_many_websockets', `The key has ${limit} open WebSockets already (WEBSOCKET_MAX_PER_KEY).`),
  socketTooOld: (minutes: number) =>
    invalid(
      'websocket_connection_limit_reached',
      `The WebSocket has been open for ${minutes} minutes, its limit. Create a new one to continue.`,
    ),
  responseInFlight: () =>
    conflict('response_already_in_flight', 'A response is in flight on this stream: wait for its end.', 'stream_id'),
  tooManyStreams: (limit: number) =>
    refuse(429, 'too_many_streams', `${limit} responses are in flight on this WebSocket, its limit.`, {
      param: 'stream_id',
    }),
  notSteered: (id: string) =>
    invalid('response_not_found', `No response '${id}' runs on this WebSocket.`, 'previous_response_id'),
  steeringNotSupported: () =>
    invalid(
      'steering_not_supported',
      'The response cannot be steered: its provider has no WebSockets, or it was requested over HTTP. Send the input with the next response.create.',
      'type',
    ),
  tooManySteers: () =>
    invalid(
      'too_many_pending_steers',
      'Other input waits for the end of this response already.',
      'previous_response_id',
    ),
  stopping: () => busy('stopping', 'The gateway is stopping and takes no new requests.', 5),
  overloaded: (limit: number) =>
    busy('overloaded', `The gateway is serving its maximum of ${limit} concurrent requests.`),
  bodiesTooLarge: (limitBytes: number) =>
    busy(
      'overloaded',
      `Large request bodies already use the ${limitBytes} bytes of memory that the gateway reserves for them. Try again soon.`,
    ),
  contentReadsBusy: () => busy('overloaded', 'Too many reads of recorded content wait for their turn. Try again soon.'),
  bodyTooLarge: (limitBytes: number) =>
    refuse(413, 'request_too_large', `The request body is larger than the limit of ${limitBytes} bytes.`),
  /** The whole input that would be stored or sent, earlier turns included, is larger than the log accepts. */
  inputNotRecordable: (what: string, maxBytes: number) =>
    refuse(
      413,
      'request_too_large',
      `${what}, and the event log accepts at most ${maxBytes} bytes at once. Send less input, or continue fewer earlier turns; a response with "store": false does not store its input.`,
      { param: 'input', retryHelps: false },
    ),
  unsupportedEncoding: (encoding: string, accepted: string) =>
    refuse(
      415,
      'unsupported_content_encoding',
      `The request body is encoded as '${encoding.slice(0, 100)}', which is not one of ${accepted}, or more than two of them.`,
      { param: 'Content-Encoding' },
    ),
  malformedEncoding: (detail: string) =>
    invalid(
      'malformed_content_encoding',
      `The request body is not encoded as Content-Encoding states: ${detail}.`,
      'Content-Encoding',
    ),
  featureUnavailable: (message: string) =>
    refuse(503, 'feature_unavailable', message, { type: 'invalid_request_error', retryHelps: false }),
  analyticsUnavailable: (cause: Error) =>
    busy(
      'analytics_unavailable',
      `The query failed: ${cause.message}. Request less data, or try again later.`,
      2,
      cause,
    ),
  sqlRefused: (message: string) => invalid('sql_refused', message, 'query'),
  sqlOverLimit: (message: string) => invalid('sql_over_limit', message, 'query'),
  requestCanceled: () => refuse(499, 'request_canceled', 'The client went before it had its answer.'),
  notReloaded(problems: readonly string[], temporary: boolean) {
    const message = `The settings were not reloaded, and nothing has changed: ${problems.join('; ')}`;
    return temporary ? busy('reload_not_possible', message) : conflict('configuration_invalid', message);
  },
  recalculationRunning: () =>
    refuse(409, 'recalculation_running', 'A recalculation of past costs is already running. Wait until it has ended.'),
  replayRunning: (id: string | undefined) =>
    refuse(
      409,
      'replay_running',
      `The replay ${id === undefined ? 'that was just started' : `'${id}'`} is still running. Wait until it has ended, or cancel it.`,
    ),
  batchNotReady: (id: string, status: string) =>
    refuse(
      409,
      'batch_not_ready',
      `The batch '${id}' is '${status}': results are available when it has ended. Try again later.`,
    ),
  changedMeanwhile: (what: string) =>
    refuse(409, 'changed_meanwhile', `'${what}' was changed by concurrent requests. Nothing was changed; try again.`),
  keyExists: (id: string) =>
    conflict('key_exists', `The key '${id}' has or had this hash. Nothing was changed.`, 'secret_sha256'),
  revisionMismatch: (what: string, revision: bigint | 'noStream') =>
    conflict(
      'revision_mismatch',
      revision === 'noStream'
        ? `'${what}' does not exist, so it is not at the revision that If-Match names. Nothing was changed.`
        : `'${what}' is at revision ${revision}, not at the one that If-Match names. Nothing was changed.`,
      'If-Match',
    ),
  viewNotStoppedAt: (view: string, position: string) =>
    conflict(
      'view_not_stopped',
      `'${view}' has not stopped at event ${position}. Only the event on which it has stopped can be skipped; GET /admin/views shows it.`,
      'position',
    ),
  analyticsNotRebuildable: () =>
    conflict(
      'view_not_rebuildable',
      'Analytics is rebuilt in a second database, while no gateway runs: chancery views rebuild analytics.',
    ),
  viewNotSaved: (view: string) =>
    conflict('view_not_rebuildable', `'${view}' keeps no snapshot: every start of a gateway builds it from the log.`),
  dashboardAccessDenied: () =>
    denied(
      'dashboard_access_denied',
      'This key has no access to the admin API. It takes the master key, or a key with dashboard access.',
    ),
  previousSecretDenied: () =>
    denied(
      'previous_secret_denied',
      'The secret of this key was rotated. Until its grace period ends the previous one is accepted for model requests, but not for administration. Use the new secret.',
    ),
  adminScopeDenied: () =>
    denied(
      'admin_scope_denied',
      'This endpoint concerns the whole gateway, and the key administers only its own user path.',
    ),
  metricsDenied: () =>
    denied(
      'metrics_denied',
      'Metrics are of the whole gateway. They take METRICS_KEY, the master key, or a key that administers the whole gateway.',
    ),
  networkNotAllowed: (address: string | undefined) =>
    denied(
      'network_not_allowed',
      `This key may not be used from ${address ?? 'an unknown address'}: it is not in the networks that the key has. Behind a proxy, TRUSTED_PROXIES must name it.`,
    ),
  hostNotAllowed: (host: string) =>
    denied(
      'host_not_allowed',
      `The gateway requires no key, so it accepts only its own host names, and '${host.slice(0, 255)}' is not one of them. Add it to GATEWAY_ALLOWED_HOSTS, or set GATEWAY_MASTER_KEY.`,
    ),
  crossSiteRefused: () =>
    denied(
      'cross_site_refused',
      'The gateway asks for no key, so it refuses requests that a web page of another origin has caused. Set GATEWAY_MASTER_KEY to use it from web pages.',
    ),
  setByHigherAdministrator: (what: string, value: string) =>
    denied(
      'set_by_higher_administrator',
      `${what} was set to ${value} by a higher-ranked administrator. It can be tightened or set to the same value, but not relaxed, reset or removed.`,
    ),
  exceedsOwnAccess: (param: string, why: string) =>
    denied('exceeds_own_access', `'${param}' exceeds the access of the requesting key: ${why}.`, param),
  passthroughScopeDenied: (method: string, path: string) =>
    denied(
      'passthrough_scope_denied',
      `${method} ${path} of a provider may concern objects that other callers stored there, so it requires a key that can see everything. Stored objects are at /v1: files, batches, responses, conversations.`,
    ),
  storedReferenceDenied: (param: string) =>
    denied(
      'stored_reference_denied',
      `'${param}' names an object stored at the provider, which does not record its owner, so it requires a key that can see everything.`,
      param,
    ),
  userPathOutOfScope: (path: string, scope: string, param: string) =>
    denied(
      'user_path_out_of_scope',
      `'${param}' is '${path}', and the key administers only '${scope}' and the user paths below it.`,
      param,
    ),
  notFound: (what: string, id: string, code: string | null = null) =>
    missing(code, `The ${what} '${id}' was not found.`),
  userManaged: managed('policy of', 'user_managed', 'user_path'),
  keyNotActive: (id: string) =>
    refuse(401, 'key_not_active', `The key '${id}' that made this request is no longer accepted.`, {
      retryHelps: false,
    }),
  /**
   * The client has the id of a response that the gateway itself generates, so the request cannot move to this
   * provider.
   */
  backgroundOfOtherProvider: (provider: string) =>
    invalid(
      'background_elsewhere',
      `The provider '${provider}' runs background responses itself, and this one was started at another provider.`,
      'background',
    ),
  virtualModelManaged: managed('virtual model', 'virtual_model_managed', 'source'),
  guardrailManaged: managed('guardrail', 'guardrail_managed', 'name'),
  guardrailInUse: (message: string, param: string) => invalid('guardrail_in_use', message, param),
  /** The guardrails of a workflow cannot run, so its requests cannot be checked. */
  workflowUnusable: (workflow: string, problem: string) =>
    refuse(
      500,
      'plugin_failure',
      `The guardrails of the workflow '${workflow}' cannot run: ${problem}. The request was not served.`,
      { retryHelps: false },
    ),
  /** The workflow of the request has guardrails, and they read no requests to this endpoint. */
  endpointNotGuarded: (endpoint: string, workflow: string) =>
    denied(
      'endpoint_not_guarded',
      `The workflow '${workflow}' of this request has guardrails, which cannot read requests to ${endpoint}. The request was not served.`,
    ),
  /** A guardrail blocked the request or its answer. A status from 500 on would name a provider or the gateway as its cause. */
  guardrailBlocked: (status: number, code: string, message: string, what: 'request' | 'answer') =>
    refuse(status, code, message, {
      retryHelps: false,
      ...((what === 'answer' || status >= 500) && { type: 'guardrail_error' }),
    }),
  /** A guardrail answers in place of the model, and answers of this endpoint have no text. */
  guardrailResponded: (endpoint: string, code: string, text: string) =>
    refuse(
      400,
      code,
      `A guardrail answers this request, and an answer of ${endpoint} has no place for its text: ${text}`,
      { retryHelps: false },
    ),
  /** A provider that ignores the case of names would read another member than the gateway. */
  ambiguousMember: (path: string) =>
    invalid(
      'ambiguous_member',
      `Some providers take the member '${path}' for another. Write its name in lower case, in the letters a to z.`,
      path,
    ),
  guardrailFailed: (guardrail: string) => failed(`The guardrail '${guardrail}' failed`),
  /** A plugin that reads requests failed. */
  pluginFailed: (plugin: string) => failed(`The plugin '${plugin}' failed`),
  pluginRefused: (status: number, code: string, message: string) =>
    refuse(status, code, message, { retryHelps: false }),
  answerTooLargeToCheck: (code: string, limitBytes: number) =>
    refuse(422, code, `Guardrails read answers of up to ${limitBytes} bytes as a whole; this one is larger.`, {
      type: 'guardrail_error',
      retryHelps: false,
    }),
  notCached: () =>
    refuse(504, 'not_cached', 'No answer to this request is cached, and its Cache-Control header is only-if-cached.', {
      retryHelps: false,
    }),
  virtualModelExists: (source: string) =>
    conflict('virtual_model_exists', `A virtual model '${source}' already exists. Choose another name.`, 'source'),
  virtualModelInUse: (source: string, users: readonly string[]) =>
    conflict(
      'virtual_model_in_use',
      `Other virtual models target '${source}': ${users.map((user) => `'${user}'`).join(', ')}. Change them first.`,
      'source',
    ),
  /** For requests that name a provider and no model. */
  providerAccessDenied: (provider: string) =>
    refuse(
      400,
      'model_access_denied',
      `The provider '${provider}' is not available to this key or user path, or only some of its models are.`,
      { param: 'provider', retryHelps: false },
    ),
  modelAccessDenied: (selector: string, why: 'not available' | 'not available for this key' = 'not available') =>
    refuse(400, 'model_access_denied', `The model '${selector}' is ${why}.`, { param: 'model', retryHelps: false }),
  budgetManaged: managed('budget', 'budget_managed'),
  rateLimitManaged: managed('rate limit', 'rate_limit_managed'),
  budgetExceeded: (message: string, retryAfterSeconds: number) =>
    refuse(429, 'budget_exceeded', message, { retryAfterSeconds, retryHelps: false }),
  /** A provider's own operation that starts work which continues after its answer, under a budget. */
  unmetered: () =>
    refuse(
      400,
      'unmetered_operation',
      'This starts work that goes on after its answer and that no budget can count. Create batches at /v1/batches.',
      { retryHelps: false },
    ),
  callUnmetered: () =>
    refuse(
      400,
      'unmetered_operation',
      'The audio of this call passes without the gateway, so no budget can count it. Open a session at GET /v1/realtime.',
      { retryHelps: false },
    ),
  /** Work whose cost cannot be counted, under a budget. */
  priceUnknown: (model: string) =>
    refuse(400, 'price_unknown', `'${model}' has no price, so a batch of it cannot be admitted under a budget.`, {
      param: 'input_file_id',
      retryHelps: false,
    }),
  rateLimitExceeded: (message: string, retryAfterSeconds: number) =>
    refuse(429, 'rate_limit_exceeded', message, { retryAfterSeconds }),
  itemNotFound: (id: string) => missing('item_not_found', `Item '${id}' was not found.`, 'input'),
  conversationNotFound: (id: string, param: string | null = null) =>
    missing('conversation_not_found', `The conversation '${id}' was not found.`, param),
  conversationItemNotFound: (id: string, conversationId: string) =>
    missing('item_not_found', `The conversation item '${id}' was not found in conversation '${conversationId}'.`),
  /** OpenAI's own type for this error: the request is at fault, not the list. */
  unknownAfter: (id: string, holder: string) =>
    refuse(404, 'item_not_found', `The item '${id}' was not found in '${holder}'.`, {
      type: 'invalid_request_error',
      param: 'after',
    }),
  conversationFull: (why: string, param: string) =>
    invalid('conversation_full', `The conversation is full: ${why}`, param),
  duplicateItem: (id: string, param: string) =>
    invalid(
      'duplicate_item',
      `The conversation already holds an item '${id}'. Remove it from the request, or use another id.`,
      param,
    ),
  internal: (cause: unknown) =>
    isObject(cause) && cause.code === 'log_corrupted'
      ? refuse(
          500,
          'log_damaged',
          'A part of the event log that this request needs is damaged. The place is in the log of the gateway and in its readiness; "chancery log check" names it too.',
          { retryHelps: false },
          cause,
        )
      : refuse(
          500,
          'internal_error',
          'The gateway failed to handle the request. The details are in its own log.',
          {},
          cause,
        ),
} as const;
