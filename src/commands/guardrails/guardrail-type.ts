/**
 * A type of guardrails: its description for the editor, the schema of its configuration, and the function that compiles
 * a configuration once. The compiled guardrail evaluates requests, whole answers and streams.
 */
import type { z } from 'zod';
import type { StreamChannel, SystemChange, TextPart } from './guarded-text.ts';
import type { GuardrailDecision } from './guardrail-decision.ts';
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
