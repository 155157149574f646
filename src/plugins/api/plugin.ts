/**
 * `chancery/plugin`: what a plugin imports. A plugin is a module whose default export is made with `definePlugin`. It
 * runs in a process of its own: hooks get plain data and return plain data, which is copied between the processes.
 */
import { z } from 'zod';

export { z };

/** One text of a request or of an answer. */
export interface Text {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  /** `text` is what the author of the message wrote; `other` are settings and names, among them the model, which cannot be changed. */
  readonly kind:
    | 'text'
    | 'refusal'
    | 'reasoning'
    | 'tool_arguments'
    | 'tool_result'
    | 'definition'
    | 'identifier'
    | 'other';
  /** Texts of one message have the same number. -1: outside messages, where ids and times of an answer are, too. */
  readonly message: number;
  readonly text: string;
  /** The index of the text of a request that this one continues: an adjacent part of the same content, or message. */
  readonly follows?: number;
}

export interface ChatCall {
  /** A model or virtual model of the gateway. */
  readonly model: string;
  readonly provider?: string;
  readonly messages: readonly { readonly role: 'system' | 'user'; readonly content: string }[];
  readonly maxTokens: number;
  readonly temperature?: number;
}

export interface ChatAnswer {
  readonly text: string;
  /** Whether the answer ends where `maxTokens` cut it. */
  readonly isCut: boolean;
}

export interface HookContext<Config = Readonly<Record<string, unknown>>> {
  readonly requestId: string;
  /** Of the caller; `/` when it has none. */
  readonly userPath: string;
  readonly model: string;
  /** Empty before a provider is selected. */
  readonly provider: string;
  readonly labels: readonly string[];
  readonly config: Config;
  /** Aborted when the time is over or the client left. A result after that is ignored. */
  readonly signal: AbortSignal;
  readonly models: {
    /**
     * Calls a model through the gateway, at the user path `<caller>/guardrails/<name>`. The call is recorded and
     * priced; guardrails and plugins do not run for it. Not available in `complete` and `route`.
     */
    chat(request: ChatCall): Promise<ChatAnswer>;
  };
}

/** What a guardrail hook decides. Nothing returned: the text is allowed. */
export interface HookVerdict {
  readonly decision?: 'allow' | 'warn' | 'respond' | 'block';
  /** Lower case, for programs: `project_name`. */
  readonly code?: string;
  /** For the reader of the error. */
  readonly message?: string;
  /** Of `block`: 400 to 599. Default: 400 for requests, 422 for answers. */
  readonly status?: number;
  /** Of `respond`: the assistant's turn in place of the model's. */
  readonly respond?: string;
  /** New texts by the index of the text. Only when `mutates` is true. */
  readonly texts?: Readonly<Record<number, string>>;
  /** Only in `prompt`, and only when `mutates` is true. */
  readonly system?: { readonly mode: 'add' | 'replace'; readonly text: string };
  /** Counts by kind, for the record. Never values. */
  readonly findings?: Readonly<Record<string, number>>;
}

/** A request before it is routed. Credentials are redacted. */
export interface RequestFacts {
  /** For example `/v1/chat/completions`. */
  readonly endpoint: string;
  readonly method: string;
  readonly path: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly model: string;
  readonly provider?: string;
  readonly stream: boolean;
  readonly labels: readonly string[];
  readonly clientIp?: string;
}

export interface RequestChanges {
  /** Added to those of the request. */
  readonly labels?: readonly string[];
  readonly headers?: {
    readonly set?: Readonly<Record<string, string>>;
    readonly remove?: readonly string[];
  };
  readonly model?: string;
  readonly provider?: string;
  /** The request ends with this error. */
  readonly refuse?: { readonly status?: number; readonly code?: string; readonly message: string };
}

/** An exchange that ended. */
export interface EndedExchange {
  readonly exchangeId: string;
  readonly requestId: string;
  readonly userPath: string;
  readonly endpoint: string;
  readonly provider?: string;
  readonly model?: string;
  readonly labels: readonly string[];
  readonly status: number;
  readonly stream: boolean;
  readonly durationMs: number;
  readonly firstByteMs?: number;
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  /** US dollars; absent when it is not known. */
  readonly cost?: number;
}

export interface Hooks<Config> {
  /** Runs before a request is routed. */
  request?(request: RequestFacts, context: HookContext<Config>): Awaitable<RequestChanges | undefined | void>;
  /** A guardrail on requests: reads every text of the conversation. */
  prompt?(texts: readonly Text[], context: HookContext<Config>): Awaitable<HookVerdict | undefined | void>;
  /** A guardrail on whole answers. Streams are collected first. */
  response?(texts: readonly Text[], context: HookContext<Config>): Awaitable<HookVerdict | undefined | void>;
  /** A guardrail on streams. The stream is collected, evaluated once and then sent. */
  stream?(texts: readonly Text[], context: HookContext<Config>): Awaitable<HookVerdict | undefined | void>;
  /** Selects a target of a virtual model. */
  route?(question: unknown, context: HookContext<Config>): Awaitable<unknown>;
  /** Runs after an exchange. The request does not wait for it. */
  complete?(facts: EndedExchange, context: HookContext<Config>): Awaitable<void>;
}

export type Awaitable<Value> = Value | Promise<Value>;

/** A field of the editor. Derived from the schema of the configuration when they are not given. */
export interface Field {
  readonly key: string;
  readonly label: string;
  readonly input: 'text' | 'textarea' | 'number' | 'select' | 'checkboxes' | 'secret' | 'model';
  readonly required: boolean;
  readonly help?: string;
  readonly placeholder?: string;
  readonly options?: readonly { readonly value: string; readonly label: string }[];
}

type JsonSchema = Readonly<Record<string, unknown>>;

export interface Plugin<Schema extends z.ZodType | JsonSchema = JsonSchema> {
  /** Lower-case letters, digits, `_` and `-`. It is the type of the plugin's guardrails. */
  readonly name: string;
  readonly label?: string;
  readonly version?: string;
  readonly description?: string;
  /** A zod schema of an object, or its JSON Schema. Absent: no settings. */
  readonly config?: Schema;
  /** Of a strategy that uses the hook `route`. */
  readonly routeConfig?: z.ZodType | JsonSchema;
  readonly fields?: readonly Field[];
  /** Whether guardrail hooks change texts. Default false. */
  readonly mutates?: boolean;
  /** Whether its verdicts are a protection. Shown to administrators. Default: true with a guardrail hook. */
  readonly guardrail?: boolean;
  readonly hooks: Hooks<ConfigOf<Schema>>;
}

export type ConfigOf<Schema> = Schema extends z.ZodType ? z.output<Schema> : Readonly<Record<string, unknown>>;

/** Returns the plugin, with the types of its configuration in its hooks. */
export function definePlugin<Schema extends z.ZodType | JsonSchema = JsonSchema>(
  plugin: Plugin<Schema>,
): Plugin<Schema> {
  return plugin;
}

/**
 * A context for tests of a plugin: with the defaults of its settings, and with the members that are given. Calls of
 * models fail unless `models` is given. @throws Error for invalid settings
 */
export function testContext<Schema extends z.ZodType | JsonSchema>(
  { config }: Plugin<Schema>,
  settings: Readonly<Record<string, unknown>> = {},
  given: Partial<Omit<HookContext, 'config'>> = {},
): HookContext<ConfigOf<Schema>> {
  const read: unknown = config instanceof z.ZodType ? config.parse(settings) : settings;
  return {
    ...{ requestId: 'test', userPath: '/', model: 'test-model', provider: '', labels: [] },
    signal: new AbortController().signal,
    models: { chat: () => Promise.reject(new Error('no model in this test')) },
    ...given,
    config: read as ConfigOf<Schema>,
  };
}
