/**
 * The analysts' tables, as data. The statements that make the tables, the order of values in written rows and the data
 * dictionary in docs/analytics-tables.md are derived from it. Columns are only ever added, at the end.
 */
import { workflowFeatures } from '../../events/catalogue/workflow.ts';

export interface Column {
  readonly name: string;
  /** ClickHouse's type. */
  readonly type: string;
  readonly codec?: string;
  /** An expression of other columns, from which ClickHouse computes it. Rows are then sent without this column. */
  readonly madeOf?: string;
  /** Its value in rows that are older than the column. Default: 0, or empty. */
  readonly before?: string;
  /** For the data dictionary, and as the column's comment in ClickHouse. */
  readonly about: string;
}

export interface Table {
  readonly name: string;
  readonly about: string;
  readonly columns: readonly Column[];
  /** The sorting key of the table. */
  readonly orderBy: string;
  /** A number that is unique in the table, as an expression of its columns. Default: `position`. */
  readonly rowId?: string;
  /** The column whose month decides the partition of a row. */
  readonly time: string;
  /** Data skipping indexes by name. */
  readonly indexes?: Readonly<Record<string, string>>;
  /** Aggregates that ClickHouse keeps inside each part of the table, so that they can never disagree with it. */
  readonly projections?: Readonly<Record<string, string>>;
}

const few = 'LowCardinality(String)';
const time = "DateTime64(6, 'UTC')";
const delta = 'Delta, LZ4';
/** Reports read these columns of every row: ZSTD makes them no smaller, and reads take two and a half times as long. */
const summed = 'T64, LZ4';
const count = 'Int64';

const column = (name: string, type: string, about: string, codec?: string): Column => ({ name, type, codec, about });
/** Of few different values. */
const word = (name: string, about: string) => column(name, few, about);
const text = (name: string, about: string) => column(name, 'String', about, 'ZSTD(1)');
const longText = (name: string, about: string) => column(name, 'String', about, 'ZSTD(3)');
/** Reports read it often, so it is compressed less. */
const plainText = (name: string, about: string) => column(name, 'String', about, 'LZ4');
const uuid = (name: string, about: string) => column(name, 'UUID', about, 'ZSTD(1)');
const moment = (name: string, about: string) => column(name, time, about, delta);

const position = column(
  'position',
  'UInt64',
  'place in the log of the event that made the row; unique in its table',
  delta,
);
const retention = column(
  '_retention_days',
  'UInt16',
  'days after which the row is deleted, counted from its time; 0 keeps it without limit',
  'ZSTD(1)',
);
const actor = word('actor', '`master`, `system` or `key:<id>`');
const keyId = word('auth_key_id', 'id of the managed key; empty when there was none');
const userPath = word('user_path', 'such as `/team/alice`; `/` for callers without a user path');
const recordedPath = column(
  'user_path',
  'LowCardinality(Nullable(String))',
  'the recorded user path, such as `/team/alice`; NULL when there was none',
);
const requestId = plainText('request_id', "the client's, or the gateway's");
const labels = column('labels', 'Array(LowCardinality(String))', 'of the key and of tagging headers');
const sessionId = plainText('session_id', "id of the client's session; or empty");
const provider = word('provider', 'name of the provider; empty when none was reached');
const providerType = word('provider_type', 'such as `openai`');
const model = word('model', "the provider's model id");

const workflowId = plainText('workflow_id', 'id of the version of the workflow; empty without one');
const workflowVersion = column('workflow_version', 'UInt32', 'its number in the scope; 0 without a workflow');
const workflowScope = word(
  'workflow_scope',
  'such as `global`, `path:/team` or `provider_model:openai:gpt-4o`; empty without a workflow',
);

export const tokenColumns: readonly Column[] = [
  ['input_tokens', 'including those read from or written to a prompt cache'],
  ['output_tokens', 'including reasoning'],
  ['total_tokens', 'as the provider counts them'],
  ['cached_input_tokens', 'read from the prompt cache'],
  ['cache_write_input_tokens', 'written to the prompt cache'],
  ['cache_write_1h_input_tokens', 'of these, kept for an hour'],
  ['reasoning_tokens', 'of the output'],
  ['audio_input_tokens', 'of the input'],
  ['audio_output_tokens', 'of the output'],
  ['image_input_tokens', 'of the input'],
  ['image_output_tokens', 'of the output'],
  ['accepted_prediction_tokens', 'of the output'],
  ['rejected_prediction_tokens', 'of the output'],
].map(([name = '', about = '']) => column(name, count, `${about}; 0 when not reported`, summed));

/** Their sums over any rows are exact: a correction is a row of differences. */
export const costColumns: readonly Column[] = [
  column('input_cost', count, 'nano-dollars (1 USD is 1e9); see `input_priced`', summed),
  column('output_cost', count, 'nano-dollars; see `output_priced`', summed),
  column('total_cost', count, 'nano-dollars; see `priced`', summed),
  column('input_priced', 'Int8', 'requests whose `input_cost` is known; a sum of 0 means unknown, not free'),
  column('output_priced', 'Int8', 'likewise for `output_cost`'),
  column('priced', 'Int8', 'likewise for `total_cost`'),
];

/** What answers from the response cache saved: they cost nothing, so their costs are 0. */
export const savedColumns: readonly Column[] = [
  column('saved_cost', count, 'nano-dollars that an answer from the response cache saved; see `saved_priced`', summed),
  column('saved_priced', 'Int8', 'answers from the response cache whose `saved_cost` is known'),
];

const near = (column: string) => `${column} TYPE minmax GRANULARITY 1`;
const equals = (column: string) => `${column} TYPE bloom_filter(0.01) GRANULARITY 4`;

const events: Table = {
  name: 'events',
  about: 'Every event of the log.',
  time: 'at',
  orderBy: 'type, position',
  indexes: { near_position: near('position'), of_stream: equals('stream'), of_request: equals('request_id') },
  columns: [
    position,
    uuid('id', 'UUIDv7 of the event'),
    word('type', 'such as `request.received`; see docs/events.md'),
    column('schema', 'UInt16', 'version of `data`; always the newest this build knows', 'ZSTD(1)'),
    word('category', 'of the stream: its name before the first `-`'),
    text('stream', 'such as `exchange-<id>`'),
    column('revision', 'UInt64', 'place in the stream, from 0', 'T64, ZSTD(1)'),
    moment('at', 'when it happened, in UTC'),
    actor,
    keyId,
    recordedPath,
    requestId,
    text('correlation_id', 'or empty'),
    text('causation_id', 'or empty'),
    text('traceparent', 'W3C trace context; or empty'),
    longText('data', 'JSON; read members with JSONExtract…'),
    longText(
      'body',
      "raw bytes of the event's body, the first MiB; empty for `placeholders.assigned` and `conversation.placeholders_assigned`, whose values are only in the log",
    ),
    column('body_bytes', 'UInt64', 'size of the body in the log', 'T64, ZSTD(1)'),
    retention,
  ],
};

const attempts: readonly Column[] = [
  column('attempts.number', 'Array(UInt16)', '1 for the first call to a provider'),
  column('attempts.kind', 'Array(LowCardinality(String))', '`primary`, `retry`, `translation` or `failover`'),
  column('attempts.provider', 'Array(LowCardinality(String))', 'name of the provider'),
  column('attempts.provider_type', 'Array(LowCardinality(String))', 'its type'),
  column('attempts.model', 'Array(LowCardinality(String))', "the provider's model id; or empty"),
  column('attempts.dialect', 'Array(LowCardinality(String))', 'format of the request to the provider'),
  column('attempts.started_ms', 'Array(Float64)', 'milliseconds after the request was received'),
  column('attempts.failed', 'Array(UInt8)', '1 when the attempt failed'),
  column('attempts.status', 'Array(UInt16)', "of a failed attempt, the provider's status; 0 without one"),
  column('attempts.code', 'Array(LowCardinality(String))', 'of a failed attempt, its error code; or empty'),
  column('attempts.message', 'Array(String)', 'of a failed attempt; or empty', 'ZSTD(3)'),
];

const exchanges: Table = {
  name: 'exchanges',
  about:
    'One row for each request to a model or call of a tool, written when it has ended, with its attempts; and one row for refused requests ' +
    'that the log counts in one event, so that `sum(requests)` counts requests.',
  time: 'at',
  orderBy: 'at, position',
  indexes: {
    near_position: near('position'),
    of_id: equals('id'),
    of_request: equals('request_id'),
    of_session: equals('session_id'),
    of_response: equals('response_id'),
  },
  columns: [
    position,
    text(
      'id',
      'of the exchange, whose events are in stream `exchange-<id>`; for requests counted in one event, of that event',
    ),
    moment('at', 'when the request was received'),
    moment('ended_at', 'when it ended'),
    requestId,
    actor,
    keyId,
    word('auth_method', '`master_key`, `api_key` or `no_key`'),
    userPath,
    sessionId,
    labels,
    word('dialect', "format of the client's request, such as `chat` or `responses`"),
    word('method', 'HTTP method'),
    plainText('path', 'path and query'),
    word('endpoint', 'the path alone'),
    word('client_ip', 'or empty'),
    word('user_agent', 'or empty'),
    column('stream', 'UInt8', '1 when the client requested a stream'),
    word('capture', '`full` when bodies are kept, else `metadata`'),
    word('requested_model', "in the client's spelling; or empty"),
    provider,
    providerType,
    model,
    column('through', 'Array(LowCardinality(String))', 'resolved virtual models, outermost first'),
    word('outcome', '`completed`, `failed`, `refused` or `disconnected`'),
    column('status', 'UInt16', 'the HTTP status the client got; 499 when it disconnected, 0 when it got none'),
    word('error_type', 'or empty'),
    word('error_code', 'or empty'),
    longText('error_message', 'or empty'),
    word('failure_reason', 'such as `provider_error` or `stream_broken`; or empty'),
    word('finish_reason', 'as reported by the provider; or empty'),
    column('first_byte_ms', 'Nullable(Float64)', 'from received to the first byte of the answer'),
    column('duration_ms', 'Float64', 'from received to the end; the mean of requests counted in one event'),
    column('chunks', 'UInt32', 'pieces of the answer', 'T64, ZSTD(1)'),
    column('bytes', 'UInt64', "size of the provider's answer", 'T64, ZSTD(1)'),
    text('response_id', 'of the stored response; or empty'),
    plainText(
      'replayed_from',
      'exchange whose answer was returned again, by an idempotency key or from the response cache; or empty',
    ),
    column('history_items', 'UInt32', 'items of earlier turns put in front of the input'),
    column('resumed', 'UInt8', 'how often a background response was resumed'),
    column('attempt_count', 'UInt16', 'calls to providers'),
    ...attempts,
    ...tokenColumns.slice(0, 7),
    column('usage_known', 'UInt8', '1 when the provider reported tokens'),
    word('cache_type', '`exact` or `semantic` when answered from a cache; or empty'),
    column('recorded_cost', 'Nullable(Int64)', 'nano-dollars as first recorded; `usage` has the corrected cost'),
    {
      ...column(
        'requests',
        'UInt32',
        'number of requests in this row: 1, or more for refused requests that are counted in one event',
      ),
      before: '1',
    },
    workflowId,
    workflowVersion,
    workflowScope,
    column(
      'workflow_off',
      'Array(LowCardinality(String))',
      `the features that the workflow turned off: of ${workflowFeatures.map((feature) => `\`${feature}\``).join(', ')}`,
    ),
    word(
      'guardrail_verdict',
      'the strongest verdict of its guardrails: `block`, `failure`, `respond`, `warn` or `allow`; empty when none ran',
    ),
    word('guardrail', 'name of the guardrail with that verdict; empty for `allow`'),
    word('guardrail_code', 'code of that verdict; or empty'),
    column('guardrails_edited', 'UInt8', '1 when a guardrail changed the request or the answer'),
    column('guardrail_runs', 'UInt16', 'rows in `guardrail_verdicts`'),
    retention,
    plainText('trace_id', "of the request's trace, the client's or the gateway's (OpenTelemetry); or empty"),
    text(
      'causation_id',
      'id of the exchange that caused this one, as a response causes the calls of its tools; or empty',
    ),
    text('tool_item_id', 'of a call of a tool: of the `mcp_call` in the response that made it; or empty'),
    column('tool_argument_bytes', 'UInt64', 'of a call of a tool: size of the arguments as JSON', 'T64, ZSTD(1)'),
    column('tool_result_bytes', 'UInt64', 'of a call of a tool: size of the result as JSON', 'T64, ZSTD(1)'),
    column('tool_ms', 'Nullable(Float64)', 'from the call of the tool to its answer; NULL without an answer'),
    column('tool_error', 'UInt8', '1 when the tool or its server answered with an error'),
  ],
};

const quarterHour = 'toStartOfFifteenMinutes(at)';
const sums = [...tokenColumns.slice(0, 7), ...costColumns, ...savedColumns].map((column) => `sum(${column.name})`);

const usage: Table = {
  name: 'usage',
  about:
    'Tokens and costs. One row for each `usage.recorded`, and one row with the differences for each later correction, with ' +
    'the time and the names of the usage that it corrects: sums over any rows include all corrections.',
  time: 'at',
  orderBy: 'at, position',
  indexes: {
    near_position: near('position'),
    of_usage: equals('usage_id'),
    of_exchange: equals('exchange_id'),
    of_session: equals('session_id'),
  },
  projections: {
    sums_by_quarter_hour: `SELECT ${quarterHour}, user_path, auth_key_id, provider, provider_type, model, endpoint, cache_type,
      sum(requests), ${sums.join(', ')}
      GROUP BY ${quarterHour}, user_path, auth_key_id, provider, provider_type, model, endpoint, cache_type`,
  },
  columns: [
    position,
    word('kind', '`recorded` or `corrected`'),
    uuid('usage_id', 'id of the `usage.recorded`, also of its corrections'),
    moment('at', 'when the usage was recorded'),
    moment('known_at', 'when this row became known: later for corrections'),
    text('exchange_id', 'id in `exchanges`'),
    requestId,
    actor,
    keyId,
    userPath,
    labels,
    sessionId,
    provider,
    providerType,
    model,
    word(
      'endpoint',
      "such as `/v1/chat/completions`; the whole path on a provider's own API, except in rows of earlier versions",
    ),
    word('cache_type', '`exact` or `semantic` when answered from a cache; or empty'),
    word('source', '`provider`, or `unknown` when the provider reported nothing'),
    column('requests', 'Int8', '1, and 0 for corrections and for attempts that failed: its sum counts requests'),
    ...tokenColumns,
    column('input_seconds', 'Float64', 'of audio, where the provider counts seconds'),
    column('input_characters', count, 'of the text of a speech request'),
    column('output_images', count, 'number of requested images'),
    ...costColumns,
    word('price_source', '`override:…`, `config`, `snapshot:<date>`, `provider_reported`; or empty'),
    longText('price', 'JSON: the rates in US dollars that applied; or empty'),
    text('caveat', 'what the cost leaves out; or empty'),
    longText('raw', 'JSON: the usage as the provider reported it; or empty'),
    column(
      'estimated',
      'UInt8',
      '1 when the cost is that of estimated tokens, because the provider reported incomplete usage',
    ),
    column('estimated_input_tokens', count, 'input tokens that an estimated cost is computed from'),
    column('estimated_output_tokens', count, 'output tokens that an estimated cost is computed from'),
    column('answers', 'UInt32', 'of a batch: number of its answers in these sums; else 1; 0 for corrections'),
    text(
      'provider_id',
      "the provider's own id of the answer, response or batch; empty when it gave none, and for corrections",
    ),
    retention,
    {
      ...word('label_set', 'JSON: all `labels` as one value, which is faster in GROUP BY; not part of `SELECT *`'),
      madeOf: 'toJSONString(labels)',
    },
    ...savedColumns,
  ],
};

const adminChanges: Table = {
  name: 'admin_changes',
  about:
    'Changes by administrators, operators and the configuration: keys, users, models, prices, budgets, limits, settings, skipped events.',
  time: 'at',
  orderBy: 'at, position',
  indexes: { near_position: near('position'), of_subject: equals('subject') },
  columns: [
    position,
    uuid('id', 'of the event'),
    moment('at', 'time of the change'),
    word('type', 'such as `key.created`'),
    word('category', 'kind of the changed object, such as `key` or `budget`'),
    text('subject', 'the id, path or name in the stream name'),
    column('revision', 'UInt64', 'number of the change in its stream, from 0', 'T64, ZSTD(1)'),
    actor,
    keyId,
    recordedPath,
    requestId,
    longText('data', 'JSON: data of the event'),
    retention,
  ],
};

/** More guardrails than one phase can have. */
const RUNS_OF_EVENT = 65_536;

/** The `rowId` of a verdict. */
export function verdictRowId(position: number, run: number): number {
  return position * RUNS_OF_EVENT + run;
}

const guardrailVerdicts: Table = {
  name: 'guardrail_verdicts',
  about:
    'One row for each run of a guardrail on a request or an answer. It contains no text of either and no value that was found.',
  time: 'at',
  orderBy: 'at, position',
  rowId: `position * ${RUNS_OF_EVENT} + run`,
  indexes: { near_position: near('position'), of_exchange: equals('exchange_id') },
  columns: [
    { ...position, about: 'place in the log of the `guardrail.applied`; with `run` unique in the table' },
    moment('at', 'when the guardrails of the phase had ended'),
    word('type', 'type of the guardrail, such as `pii`'),
    text('exchange_id', 'id in `exchanges`'),
    requestId,
    actor,
    keyId,
    userPath,
    word('guardrail', 'its name'),
    word('phase', '`prompt`, `response` or `stream`'),
    word('verdict', '`block`, `failure`, `respond`, `warn` or `allow`'),
    column('run', 'UInt16', 'place among the runs of the phase, from 0, in the order of the steps'),
    column('step', 'UInt16', 'of the workflow'),
    column('attempt', 'UInt16', 'number of the attempt whose answer was evaluated; 0 in the prompt phase'),
    word('code', 'or empty'),
    longText('message', 'or empty'),
    longText('error', 'of a failure; or empty'),
    word('fail_mode', 'of a failure, whether the request went on: `open` or `closed`; or empty'),
    column('edited', 'UInt8', '1 when it changed texts, the system text or headers'),
    column('findings', 'Map(LowCardinality(String), Int64)', 'number of matches by kind'),
    column('duration_ns', count, 'nanoseconds'),
    column('decided', 'UInt8', '1 when its verdict is that of the phase; 0 for `allow`'),
    workflowId,
    workflowVersion,
    workflowScope,
    retention,
  ],
};

export const tables = { events, exchanges, usage, adminChanges, guardrailVerdicts } as const;
export type TableKey = keyof typeof tables;
export const tableKeys = [
  'events',
  'exchanges',
  'usage',
  'adminChanges',
  'guardrailVerdicts',
] as const satisfies readonly TableKey[];

/** The columns that are sent with a row, in their order: all but those that ClickHouse computes. */
export function valueColumns({ columns }: Table): readonly string[] {
  return columns.filter(({ madeOf }) => madeOf === undefined).map((column) => column.name);
}
