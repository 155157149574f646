/**
 * The bodies of an exchange's requests to providers, as `attempt.started` records them: by the bytes that differ from a
 * body which is on record already.
 */
import { hash } from 'node:crypto';
import type { AttemptRequest, AttemptRequestBase } from '../../../events/catalogue/exchange.ts';
import { type Plan, sentContentType } from '../plan.ts';

interface RecordedBodies {
  /** Otherwise only size and digest of a body are recorded. */
  readonly keepBodies: boolean;
  /** The body of `request.received`; undefined when it is not on record. */
  readonly client: Buffer | undefined;
  /** The request as guardrails changed it, the body of `guardrail.applied`; undefined when they did not. */
  readonly guardrails: Buffer | undefined;
}

interface SentRequest {
  readonly request: AttemptRequest;
  /** The bytes between those that the body shares with its base; undefined when there are none. */
  readonly body: Buffer | undefined;
}

interface Difference {
  readonly base: AttemptRequestBase;
  readonly prefixBytes: number;
  readonly suffixBytes: number;
}

const nothing = Buffer.alloc(0);

export class SentRequests {
  readonly #recorded: RecordedBodies;
  #previous: { readonly base: AttemptRequestBase; readonly body: Buffer } | undefined;

  constructor(recorded: RecordedBodies) {
    this.#recorded = recorded;
  }

  /** The request of the next attempt, whose body is the one that is sent. */
  next(attempt: number, plan: Plan, path: string | undefined): SentRequest {
    const contentType = sentContentType(plan);
    const head = { ...(path === undefined ? {} : { path }), ...(contentType === undefined ? {} : { contentType }) };
    const { body: given = nothing } = plan;
    if (!(given instanceof Uint8Array)) return { request: { ...head, streamed: true }, body: undefined };
    const bytes = given.length;
    if (bytes === 0) return { request: { ...head, bytes }, body: undefined };
    if (!this.#recorded.keepBodies || (plan.kind === 'forward' && plan.fields !== undefined)) {
      return { request: { ...head, bytes, sha256: hash('sha256', given) }, body: undefined };
    }
    const body = Buffer.from(given.buffer, given.byteOffset, given.byteLength);
    const difference = this.#difference(body);
    this.#previous = { base: `attempt:${attempt}`, body };
    if (difference === undefined) return { request: { ...head, bytes }, body };
    const { prefixBytes, suffixBytes } = difference;
    const middle = body.subarray(prefixBytes, bytes - suffixBytes);
    return { request: { ...head, bytes, ...difference }, body: middle.length === 0 ? undefined : middle };
  }

  /** To the base that leaves the fewest bytes to record; undefined when there is none. */
  #difference(body: Buffer): Difference | undefined {
    const { client, guardrails } = this.#recorded;
    const first: Difference | undefined =
      guardrails !== undefined
        ? differenceOf(body, 'guardrails', guardrails)
        : client !== undefined
          ? differenceOf(body, 'client', client)
          : undefined;
    if (this.#previous === undefined || (first !== undefined && shared(first) === body.length)) return first;
    const toPrevious = differenceOf(body, this.#previous.base, this.#previous.body);
    return first === undefined || shared(toPrevious) > shared(first) ? toPrevious : first;
  }
}

function shared({ prefixBytes, suffixBytes }: Difference): number {
  return prefixBytes + suffixBytes;
}

function differenceOf(body: Buffer, base: AttemptRequestBase, other: Buffer): Difference {
  if (body === other) return { base, prefixBytes: body.length, suffixBytes: 0 };
  const prefixBytes = commonPrefix(body, other);
  const most = Math.min(body.length, other.length) - prefixBytes;
  return { base, prefixBytes, suffixBytes: commonSuffix(body, other, most) };
}

// How many bytes two texts share at their beginning and at their end, by native comparison of ranges.

/** The first range that is compared on its own; later ones double. */
const FIRST_RANGE = 64;

export function commonPrefix(one: Buffer, other: Buffer): number {
  const most = Math.min(one.length, other.length);
  return sharedLength(most, (from, to) => one.compare(other, from, to, from, to) === 0);
}

/** @param most bytes of both that may count, at most the length of the shorter one */
export function commonSuffix(one: Buffer, other: Buffer, most: number): number {
  const [ofOne, ofOther] = [one.length, other.length];
  return sharedLength(
    most,
    (from, to) => one.compare(other, ofOther - to, ofOther - from, ofOne - to, ofOne - from) === 0,
  );
}

/** @param isEqual whether the ranges are equal, counted from the end at which the comparison begins */
function sharedLength(most: number, isEqual: (from: number, to: number) => boolean): number {
  if (isEqual(0, most)) return most;
  let equal = 0;
  let range = FIRST_RANGE;
  while (equal + range < most && isEqual(equal, equal + range)) {
    equal += range;
    range *= 2;
  }
  let different = Math.min(equal + range, most);
  while (different - equal > 1) {
    const middle = (equal + different) >>> 1;
    if (isEqual(equal, middle)) equal = middle;
    else different = middle;
  }
  return equal;
}
