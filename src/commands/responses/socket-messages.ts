/** The messages of clients on a WebSocket of `/v1/responses` (OpenAI: "WebSocket mode"). */
import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';
import { rewriteMembers } from '../../providers/translate/json.ts';
import { refusals } from '../refusal.ts';

export interface CreateMessage {
  readonly kind: 'create';
  /** Empty: the stream of messages that name none. */
  readonly streamId: string;
  /** The body of `POST /v1/responses` with `stream: true`. */
  readonly body: Buffer;
  /** False: the turn is kept for later ones, and no model answers. */
  readonly generate: boolean;
  readonly idempotencyKey: string | undefined;
  readonly previousId: string | undefined;
}

interface CancelMessage {
  readonly kind: 'cancel';
  readonly streamId: string;
  /** Undefined: the response that runs on the stream. */
  readonly responseId: string | undefined;
}

/** Input for a response that runs. It has no stream of its own. */
export interface SteerMessage {
  readonly kind: 'steer';
  /** The response that runs. */
  readonly previousId: string;
  readonly input: unknown;
}

const MAX_STREAM_ID_LENGTH = 256;

/** Members that are not part of the body of a request. `stream` is always true, and `background` false. */
const ofTransport = {
  type: undefined,
  stream_id: undefined,
  generate: undefined,
  background: undefined,
  idempotency_key: undefined,
  stream: 'true',
};

/** A refused message may be one that takes long to parse. */
const MAX_REFUSED_BYTES = 64 * 1024;

/** The stream that a refused message names; empty where that is not read. */
export function streamIdIn(message: Buffer): string {
  if (message.length > MAX_REFUSED_BYTES) return '';
  try {
    const given = parseExactly(message.toString());
    const id = isObject(given) ? given['stream_id'] : undefined;
    return typeof id === 'string' && id.length <= MAX_STREAM_ID_LENGTH ? id : '';
  } catch {
    return '';
  }
}

/** @param message UTF-8 @throws Refusal 400 */
export function readSocketMessage(message: Buffer): CreateMessage | CancelMessage | SteerMessage {
  const given = parsed(message);
  const { type, background } = given;
  const streamId = textIn(given, 'stream_id') ?? '';
  if (streamId.length > MAX_STREAM_ID_LENGTH) {
    throw refusals.invalidRequest(`'stream_id' has more than ${MAX_STREAM_ID_LENGTH} characters.`, 'stream_id');
  }
  if (type === 'response.cancel') return { kind: 'cancel', streamId, responseId: textIn(given, 'response_id') };
  if (type === 'response.steer') {
    checkSteering(given);
    return { kind: 'steer', previousId: textIn(given, 'previous_response_id') ?? '', input: given['input'] };
  }
  if (type !== 'response.create') {
    throw refusals.invalidRequest(`'type' must be 'response.create', 'response.cancel' or 'response.steer'.`, 'type');
  }
  if (background === true) {
    throw refusals.unsupportedParameter('background', 'a response on a WebSocket is sent while it is generated');
  }
  const body = rewriteMembers(message, ofTransport);
  const generate = given['generate'] !== false;
  const { previous_response_id: previous } = given;
  const previousId = typeof previous === 'string' ? previous : undefined;
  return { kind: 'create', streamId, body, generate, previousId, idempotencyKey: textIn(given, 'idempotency_key') };
}

const ofSteering: ReadonlySet<string> = new Set(['type', 'stream_id', 'previous_response_id', 'input']);

/** @throws Refusal 400 */
function checkSteering(given: Readonly<Record<string, unknown>>): void {
  const [other] = Object.keys(given).filter((name) => !ofSteering.has(name) && given[name] !== null);
  if (other !== undefined) {
    throw refusals.unsupportedParameter(other, 'input that steers has the settings of the response that runs');
  }
}

/** The body of the response that is steered, with other input. */
export function steeringBody(
  body: Buffer,
  { previous_response_id: previousId, input }: Readonly<Record<string, unknown>>,
): Buffer {
  return rewriteMembers(body, {
    previous_response_id: JSON.stringify(previousId),
    input: JSON.stringify(input ?? null),
    conversation: undefined,
  });
}

function parsed(message: Buffer): Readonly<Record<string, unknown>> {
  let given: unknown;
  try {
    given = parseExactly(message.toString());
  } catch (error) {
    throw refusals.malformedJson(error instanceof Error ? error.message : 'it cannot be read');
  }
  if (!isObject(given)) throw refusals.invalidRequest('A message must be a JSON object.', null);
  return given;
}

function textIn(given: Readonly<Record<string, unknown>>, name: string): string | undefined {
  const value = given[name] ?? undefined;
  if (value !== undefined && (typeof value !== 'string' || value === '')) {
    throw refusals.invalidRequest(`'${name}' must be a text that is not empty.`, name);
  }
  return value;
}
