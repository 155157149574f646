/** One stream event of a response, and the options of the stream. */
import type { Fault } from './fault.ts';
import type { JsonObject } from './json.ts';
import type { FrameKind } from './reply.ts';

export interface ResponseEvent {
  readonly kind: FrameKind;
  readonly type: string;
  readonly data: JsonObject;
}

export interface EventOptions {
  /** The request body, which selects logprobs. */
  readonly body: JsonObject;
  readonly fault?: Fault;
  /** `starting_after`: only events with a greater sequence number are sent. */
  readonly after?: number;
  /** Obfuscating filler on deltas. */
  readonly obfuscation?: boolean;
}
