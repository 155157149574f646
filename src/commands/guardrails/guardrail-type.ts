/**
 * A type of guardrails: its description for the editor, the schema of its configuration, and the function that compiles
 * a configuration once. The compiled guardrail evaluates requests, whole answers and streams.
 */
import type { z } from 'zod';
import type { Placeholders } from './placeholders.ts';

export type GuardrailPhase = 'prompt' | 'response' | 'stream';

/** A field of the editor, as `GET /admin/guardrails/types` returns it. */
export interface EditorField {
  readonly key: string;
  readonly label: string;
  readonly input: 'text' | 'textarea' | 'number' | 'select' | 'checkboxes' | 'secret' | 'model';
  readonly required: boolean;
  readonly help?: string;
  readonly placeholder?: string;
  readonly options?: readonly { readonly value: string; readonly label: string }[];
  /** Empty: of the instance. */
  readonly scope: '' | 'route';
}

export interface GuardrailType<Config> {
  readonly type: string;
  readonly label: string;
  readonly description: string;
  readonly phases: readonly GuardrailPhase[];
  /** Whether it can change texts. */
  readonly mutating: boolean;
  /** What its guardrails call, which costs money or sends texts elsewhere. Undefined: nothing. */
  readonly calls?: 'model' | 'server' | undefined;
  /** The key of the address of the server that its guardrails call. */
  readonly serverAddress?: string | undefined;
  /** Strict: unknown keys are refused. Missing keys get their default. */
  readonly config: z.ZodType<Config>;
  /** The default of each key that has one. */
  readonly defaults: Readonly<Record<string, unknown>>;
  readonly fields: readonly EditorField[];
  /** One line for lists. Contains no secret. */
  summary(config: Config): string;
  /** Whether a guardrail of a mutating type with this configuration changes texts. Default: it does. */
  changesTexts?(config: Config): boolean;
  /** Why this configuration cannot be used in this phase, which the type has; undefined when it can. */
  phaseProblem?(config: Config, phase: GuardrailPhase): string | undefined;
  /** @throws GuardrailConfigError for a configuration that the schema accepts but that cannot be compiled */
  compile(config: Config, services: GuardrailServices): CompiledGuardrail;
}

/** What a compiled guardrail may use besides its configuration. Types that call nothing ignore it. */
export interface GuardrailServices {
  /** The name of the instance. */
  readonly name: string;
  /** The user path of the instance; undefined: that of the caller. Auxiliary calls run at `<path>/guardrails/<name>`. */
  readonly userPath: string | undefined;
  /** The time limit of the instance in milliseconds; 0 or undefined: none. */
  readonly timeoutMs?: number | undefined;
  /** What happens when it fails. Undefined: `closed`. */
  readonly failMode?: 'closed' | 'open' | undefined;
  readonly callModel: CallModel;
  readonly fetch: GuardrailFetch;
}

export interface ModelCall {
  /** Of the request that the guardrail evaluates. */
  readonly requestId: string;
  /** The exchange that causes the call; undefined where there is none. */
  readonly exchangeId?: string | undefined;
  readonly model: string;
  readonly provider?: string;
  readonly userPath: string;
  readonly messages: readonly { readonly role: 'system' | 'user'; readonly content: string }[];
  readonly maxTokens: number;
  readonly temperature?: number;
  readonly signal: AbortSignal;
}

export interface ModelAnswer {
  readonly text: string;
  /** Whether the answer ends where `maxTokens` cut it. */
  readonly isCut: boolean;
  /** The exchange that is the record of the call. */
  readonly exchangeId: string;
}

/** Calls a model without guardrails. @throws ModelCallFailed when there is no answer with a text */
export type CallModel = (call: ModelCall) => Promise<ModelAnswer>;

export class ModelCallFailed extends Error {
  override readonly name = 'ModelCallFailed';
  /** The exchange that is the record of the call; undefined when there is none. */
  readonly exchangeId: string | undefined;

  constructor(message: string, exchangeId?: string) {
    super(message);
    this.exchangeId = exchangeId;
  }
}

/** The part of `fetch` that guardrails use. */
export type GuardrailFetch = (
  url: string,
  init: {
    readonly method: 'POST';
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
    readonly signal: AbortSignal;
  },
) => Promise<{ readonly status: number; text(): Promise<string> }>;

/** Facts of the exchange that a guardrail may use. */
export interface EvaluationContext {
  readonly requestId: string;
  /** Undefined where a guardrail is tested, or runs over recorded traffic. */
  readonly exchangeId?: string | undefined;
  /** The caller's. */
  readonly userPath: string;
  readonly model: string;
  readonly provider: string;
  readonly labels: readonly string[];
  readonly now: Date;
  /** Aborted when the client left or the time limit of the guardrail is over. */
  readonly signal: AbortSignal;
  /** The placeholders of the exchange, which are replaced by their values in the answer. */
  readonly placeholders: Placeholders;
}

/** Header changes in the order set, add, remove. Names are lower case. */
export interface HeaderChanges {
  readonly requestSet?: Readonly<Record<string, string>>;
  readonly requestRemove?: readonly string[];
  readonly responseSet?: Readonly<Record<string, string>>;
  readonly responseAdd?: Readonly<Record<string, string>>;
  readonly responseRemove?: readonly string[];
  /** For the provider. */
  readonly upstreamSet?: Readonly<Record<string, string>>;
}

export interface GuardrailResult {
  readonly decision: GuardrailDecision;
  /** New texts by the index of the part. Only of mutating types. */
  readonly texts?: ReadonlyMap<number, string>;
  /** Only in the prompt phase. */
  readonly system?: SystemChange;
  readonly headers?: HeaderChanges;
  /** What was found, by kind, for the record: counts, never values. */
  readonly findings?: Readonly<Record<string, number>>;
}

/** A compiled configuration. It is used by many exchanges at the same time and holds no state of any of them. */
export interface CompiledGuardrail {
  /** Evaluates the texts of a request, history included. Asynchronous only where a model or a server is called. */
  prompt?(parts: readonly TextPart[], context: EvaluationContext): GuardrailResult | Promise<GuardrailResult>;
  /** Evaluates a whole answer, or a stream that was collected. */
  response?(parts: readonly TextPart[], context: EvaluationContext): GuardrailResult | Promise<GuardrailResult>;
  /** Evaluates a stream that was collected. Undefined: `response` does. */
  stream?(parts: readonly TextPart[], context: EvaluationContext): GuardrailResult | Promise<GuardrailResult>;
  /**
   * Opens the evaluation of one stream. Undefined on a type with the stream phase: the stream is collected within the
   * buffer limit and evaluated then.
   */
  openStream?(context: EvaluationContext): StreamGuardrail;
}

/** Text for the client, and a decision if there is one. After `block` or `respond` nothing more may be sent. */
export interface StreamStep {
  readonly text: string;
  readonly decision?: GuardrailDecision;
}

/**
 * The evaluation of one stream. The texts returned for a channel, in order, are the texts that the guardrail produces
 * from the channel's whole text, however it was divided.
 */
export interface StreamGuardrail {
  push(channel: StreamChannel, text: string): StreamStep;
  /** The text of the channel is complete: returns what was retained. */
  end(channel: StreamChannel): StreamStep;
  findings?(): Readonly<Record<string, number>>;
}

/** A configuration that cannot be compiled. The message is for the administrator. */
export class GuardrailConfigError extends Error {
  override readonly name = 'GuardrailConfigError';
  /** The key at fault, when it is known. */
  readonly key: string | undefined;

  constructor(message: string, key?: string) {
    super(message);
    this.key = key;
  }
}

/** The decision of a guardrail, and which of several decisions counts. */
export type GuardrailAction = 'allow' | 'warn' | 'respond' | 'block';

export type GuardrailDecision =
  | { readonly action: 'allow' }
  | { readonly action: 'warn'; readonly code: string; readonly message?: string }
  /** The gateway answers with `text` as the assistant's turn; no provider is called, or its answer is replaced. */
  | { readonly action: 'respond'; readonly code: string; readonly text: string; readonly message?: string }
  /** `status` undefined: 400 in the prompt phase, 422 in the response phase and the stream phase. */
  | { readonly action: 'block'; readonly code: string; readonly message: string; readonly status?: number };

export const allowed: GuardrailDecision = { action: 'allow' };

export const guardrailBlocked = 'guardrail_blocked';
export const guardrailWarning = 'guardrail_warning';
export const guardrailResponded = 'guardrail_responded';

const severity: Readonly<Record<GuardrailAction, number>> = { allow: 0, warn: 1, respond: 2, block: 3 };

/** Whether `one` outweighs `other`: block > respond > warn > allow. */
export function outweighs(one: GuardrailDecision, other: GuardrailDecision): boolean {
  return severity[one.action] > severity[other.action];
}

/** What guardrails see of a request or an answer: its texts, independent of the dialect. */
export type TextRole = 'system' | 'user' | 'assistant' | 'tool';

export type TextKind =
  /** Written by the author of the message. */
  | 'text'
  | 'refusal'
  | 'reasoning'
  /** A string of the arguments of a tool call, decoded; never the JSON text around it. */
  | 'tool_arguments'
  | 'tool_result'
  /** Descriptions in tools and schemas. */
  | 'definition'
  /** Metadata and names of end users. */
  | 'identifier'
  /** Settings, ids, and names of members: values in them are hidden, and no other rule applies. */
  | 'other';

/** One text of a request or of a whole answer. */
export interface TextPart {
  readonly role: TextRole;
  readonly kind: TextKind;
  /** Parts of one message have the same number; numbers ascend in the order of the conversation. -1: outside messages. */
  readonly message: number;
  readonly text: string;
  /** The index of the part that this one continues: a reader of the request sees the two without a gap. */
  readonly follows?: number;
}

/**
 * A change of the system text of a request. `replace` removes every system text and puts `text` in front; `add` puts a
 * system message in front of the others.
 */
export interface SystemChange {
  readonly mode: 'add' | 'replace';
  readonly text: string;
}

/** One text of a stream: texts with the same key continue each other. */
export interface StreamChannel {
  /** Unique in the answer, for example `choice 0 text` or `item 2 arguments`. */
  readonly key: string;
  readonly kind: TextKind;
  /** The text is a JSON text, whose strings and numbers are what rules apply to. */
  readonly isJson: boolean;
}
