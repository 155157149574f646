/**
 * The analysts' tables, as data. The statements that make the tables, the order of values in written rows and the data
 * dictionary in docs/analytics-tables.md are derived from it. Columns are only ever added, at the end.
 */

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
  /** The column whose month decides the partition of a row. */
  readonly time: string;
  /** Data skipping indexes by name. */
  readonly indexes?: Readonly<Record<string, string>>;
  /** Aggregates that ClickHouse keeps inside each part of the table, so that they can never disagree with it. */
  readonly projections?: Readonly<Record<string, string>>;
}

const name = 'LowCardinality(String)';
const time = "DateTime64(6, 'UTC')";
const delta = 'Delta, LZ4';
/** Reports read these columns of every row: ZSTD makes them no smaller, and reads take two and a half times as long. */
const summed = 'T64, LZ4';
const count = 'Int64';

const position: Column = {
  name: 'position',
  type: 'UInt64',
  codec: delta,
  about: 'place in the log of the event that made the row; unique in its table',
};
const retention: Column = {
  name: '_retention_days',
  type: 'UInt16',
  codec: 'ZSTD(1)',
  about: 'days after which the row is deleted, counted from its time; 0 keeps it without limit',
};
const actor: Column = { name: 'actor', type: name, about: '`master`, `system` or `key:<id>`' };
const keyId: Column = { name: 'auth_key_id', type: name, about: 'id of the managed key; empty when there was none' };
const userPath: Column = {
  name: 'user_path',
  type: name,
  about: 'such as `/team/alice`; `/` for callers without a user path',
};
const recordedPath: Column = {
  name: 'user_path',
  type: 'LowCardinality(Nullable(String))',
  about: 'the recorded user path, such as `/team/alice`; NULL when there was none',
};
const requestId: Column = { name: 'request_id', type: 'String', codec: 'LZ4', about: "the client's, or the gateway's" };
const labels: Column = {
  name: 'labels',
  type: 'Array(LowCardinality(String))',
  about: 'of the key and of tagging headers',
};
const sessionId: Column = {
  name: 'session_id',
  type: 'String',
  codec: 'LZ4',
  about: "id of the client's session; or empty",
};
const provider: Column = { name: 'provider', type: name, about: 'name of the provider; empty when none was reached' };
const providerType: Column = { name: 'provider_type', type: name, about: 'such as `openai`' };
const model: Column = { name: 'model', type: name, about: "the provider's model id" };

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
].map(([column = '', about = '']) => ({
  name: column,
  type: count,
  codec: summed,
  about: `${about}; 0 when not reported`,
}));

/** Their sums over any rows are exact: a correction is a row of differences. */
export const costColumns: readonly Column[] = [
  { name: 'input_cost', type: count, codec: summed, about: 'nano-dollars (1 USD is 1e9); see `input_priced`' },
  { name: 'output_cost', type: count, codec: summed, about: 'nano-dollars; see `output_priced`' },
  { name: 'total_cost', type: count, codec: summed, about: 'nano-dollars; see `priced`' },
  {
    name: 'input_priced',
    type: 'Int8',
    about: 'requests whose `input_cost` is known; a sum of 0 means unknown, not free',
  },
  { name: 'output_priced', type: 'Int8', about: 'likewise for `output_cost`' },
  { name: 'priced', type: 'Int8', about: 'likewise for `total_cost`' },
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
    { name: 'id', type: 'UUID', codec: 'ZSTD(1)', about: 'UUIDv7 of the event' },
    { name: 'type', type: name, about: 'such as `request.received`; see docs/events.md' },
    {
      name: 'schema',
      type: 'UInt16',
      codec: 'ZSTD(1)',
      about: 'version of `data`; always the newest this build knows',
    },
    { name: 'category', type: name, about: 'of the stream: its name before the first `-`' },
    { name: 'stream', type: 'String', codec: 'ZSTD(1)', about: 'such as `exchange-<id>`' },
    { name: 'revision', type: 'UInt64', codec: 'T64, ZSTD(1)', about: 'place in the stream, from 0' },
    { name: 'at', type: time, codec: delta, about: 'when it happened, in UTC' },
    actor,
    keyId,
    recordedPath,
    requestId,
    { name: 'correlation_id', type: 'String', codec: 'ZSTD(1)', about: 'or empty' },
    { name: 'causation_id', type: 'String', codec: 'ZSTD(1)', about: 'or empty' },
    { name: 'traceparent', type: 'String', codec: 'ZSTD(1)', about: 'W3C trace context; or empty' },
    { name: 'data', type: 'String', codec: 'ZSTD(3)', about: 'JSON; read members with JSONExtract…' },
    { name: 'body', type: 'String', codec: 'ZSTD(3)', about: "raw bytes of the event's body, the first MiB" },
    { name: 'body_bytes', type: 'UInt64', codec: 'T64, ZSTD(1)', about: 'size of the body in the log' },
    retention,
  ],
};

const attempts: readonly Column[] = [
  { name: 'attempts.number', type: 'Array(UInt16)', about: '1 for the first call to a provider' },
  {
    name: 'attempts.kind',
    type: 'Array(LowCardinality(String))',
    about: '`primary`, `retry`, `translation` or `failover`',
  },
  { name: 'attempts.provider', type: 'Array(LowCardinality(String))', about: 'name of the provider' },
  { name: 'attempts.provider_type', type: 'Array(LowCardinality(String))', about: 'its type' },
  { name: 'attempts.model', type: 'Array(LowCardinality(String))', about: "the provider's model id; or empty" },
  { name: 'attempts.dialect', type: 'Array(LowCardinality(String))', about: 'format of the request to the provider' },
  { name: 'attempts.started_ms', type: 'Array(Float64)', about: 'milliseconds after the request was received' },
  { name: 'attempts.failed', type: 'Array(UInt8)', about: '1 when the attempt failed' },
  {
    name: 'attempts.status',
    type: 'Array(UInt16)',
    about: "of a failed attempt, the provider's status; 0 without one",
  },
  {
    name: 'attempts.code',
    type: 'Array(LowCardinality(String))',
    about: 'of a failed attempt, its error code; or empty',
  },
  { name: 'attempts.message', type: 'Array(String)', codec: 'ZSTD(3)', about: 'of a failed attempt; or empty' },
];

const exchanges: Table = {
  name: 'exchanges',
  about:
    'One row for each request to a model, written when it has ended, with its attempts; and one row for refused requests ' +
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
    {
      name: 'id',
      type: 'String',
      codec: 'ZSTD(1)',
      about:
        'of the exchange, whose events are in stream `exchange-<id>`; for requests counted in one event, of that event',
    },
    { name: 'at', type: time, codec: delta, about: 'when the request was received' },
    { name: 'ended_at', type: time, codec: delta, about: 'when it ended' },
    requestId,
    actor,
    keyId,
    { name: 'auth_method', type: name, about: '`master_key`, `api_key` or `no_key`' },
    userPath,
    sessionId,
    labels,
    { name: 'dialect', type: name, about: "format of the client's request, such as `chat` or `responses`" },
    { name: 'method', type: name, about: 'HTTP method' },
    { name: 'path', type: 'String', codec: 'LZ4', about: 'path and query' },
    { name: 'endpoint', type: name, about: 'the path alone' },
    { name: 'client_ip', type: name, about: 'or empty' },
    { name: 'user_agent', type: name, about: 'or empty' },
    { name: 'stream', type: 'UInt8', about: '1 when the client requested a stream' },
    { name: 'capture', type: name, about: '`full` when bodies are kept, else `metadata`' },
    { name: 'requested_model', type: name, about: "in the client's spelling; or empty" },
    provider,
    providerType,
    model,
    { name: 'through', type: 'Array(LowCardinality(String))', about: 'resolved virtual models, outermost first' },
    { name: 'outcome', type: name, about: '`completed`, `failed`, `refused` or `disconnected`' },
    {
      name: 'status',
      type: 'UInt16',
      about: 'the HTTP status the client got; 499 when it disconnected, 0 when it got none',
    },
    { name: 'error_type', type: name, about: 'or empty' },
    { name: 'error_code', type: name, about: 'or empty' },
    { name: 'error_message', type: 'String', codec: 'ZSTD(3)', about: 'or empty' },
    { name: 'failure_reason', type: name, about: 'such as `provider_error` or `stream_broken`; or empty' },
    { name: 'finish_reason', type: name, about: 'as reported by the provider; or empty' },
    { name: 'first_byte_ms', type: 'Nullable(Float64)', about: 'from received to the first byte of the answer' },
    {
      name: 'duration_ms',
      type: 'Float64',
      about: 'from received to the end; the mean of requests counted in one event',
    },
    { name: 'chunks', type: 'UInt32', codec: 'T64, ZSTD(1)', about: 'pieces of the answer' },
    { name: 'bytes', type: 'UInt64', codec: 'T64, ZSTD(1)', about: "size of the provider's answer" },
    { name: 'response_id', type: 'String', codec: 'ZSTD(1)', about: 'of the stored response; or empty' },
    {
      name: 'replayed_from',
      type: 'String',
      codec: 'LZ4',
      about: 'exchange whose answer was returned again; or empty',
    },
    { name: 'history_items', type: 'UInt32', about: 'items of earlier turns put in front of the input' },
    { name: 'resumed', type: 'UInt8', about: 'how often a background response was resumed' },
    { name: 'attempt_count', type: 'UInt16', about: 'calls to providers' },
    ...attempts,
    ...tokenColumns.slice(0, 7),
    { name: 'usage_known', type: 'UInt8', about: '1 when the provider reported tokens' },
    { name: 'cache_type', type: name, about: '`exact` or `semantic` when answered from a cache; or empty' },
    {
      name: 'recorded_cost',
      type: 'Nullable(Int64)',
      about: 'nano-dollars as first recorded; `usage` has the corrected cost',
    },
    {
      name: 'requests',
      type: 'UInt32',
      before: '1',
      about: 'number of requests in this row: 1, or more for refused requests that are counted in one event',
    },
    retention,
  ],
};

const quarterHour = 'toStartOfFifteenMinutes(at)';
const sums = [...tokenColumns.slice(0, 7), ...costColumns].map((column) => `sum(${column.name})`);

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
    by_quarter_hour: `SELECT ${quarterHour}, user_path, auth_key_id, provider, provider_type, model, endpoint, cache_type,
      sum(requests), ${sums.join(', ')}
      GROUP BY ${quarterHour}, user_path, auth_key_id, provider, provider_type, model, endpoint, cache_type`,
  },
  columns: [
    position,
    { name: 'kind', type: name, about: '`recorded` or `corrected`' },
    { name: 'usage_id', type: 'UUID', codec: 'ZSTD(1)', about: 'id of the `usage.recorded`, also of its corrections' },
    { name: 'at', type: time, codec: delta, about: 'when the usage was recorded' },
    { name: 'known_at', type: time, codec: delta, about: 'when this row became known: later for corrections' },
    { name: 'exchange_id', type: 'String', codec: 'ZSTD(1)', about: 'id in `exchanges`' },
    requestId,
    actor,
    keyId,
    userPath,
    labels,
    sessionId,
    provider,
    providerType,
    model,
    {
      name: 'endpoint',
      type: name,
      about:
        "such as `/v1/chat/completions`; the whole path on a provider's own API, except in rows of earlier versions",
    },
    { name: 'cache_type', type: name, about: '`exact` or `semantic` when answered from a cache; or empty' },
    { name: 'source', type: name, about: '`provider`, or `unknown` when the provider reported nothing' },
    {
      name: 'requests',
      type: 'Int8',
      about: '1, and 0 for corrections and for attempts that failed: its sum counts requests',
    },
    ...tokenColumns,
    { name: 'input_seconds', type: 'Float64', about: 'of audio, where the provider counts seconds' },
    { name: 'input_characters', type: count, about: 'of the text of a speech request' },
    { name: 'output_images', type: count, about: 'number of requested images' },
    ...costColumns,
    {
      name: 'price_source',
      type: name,
      about: '`override:…`, `config`, `snapshot:<date>`, `provider_reported`; or empty',
    },
    { name: 'price', type: 'String', codec: 'ZSTD(3)', about: 'JSON: the rates in US dollars that applied; or empty' },
    { name: 'caveat', type: 'String', codec: 'ZSTD(1)', about: 'what the cost leaves out; or empty' },
    { name: 'raw', type: 'String', codec: 'ZSTD(3)', about: 'JSON: the usage as the provider reported it; or empty' },
    {
      name: 'estimated',
      type: 'UInt8',
      about: '1 when the cost is that of estimated tokens, because the provider reported incomplete usage',
    },
    { name: 'estimated_input_tokens', type: count, about: 'input tokens that an estimated cost is computed from' },
    { name: 'estimated_output_tokens', type: count, about: 'output tokens that an estimated cost is computed from' },
    {
      name: 'answers',
      type: 'UInt32',
      about: 'of a batch: number of its answers in these sums; else 1; 0 for corrections',
    },
    {
      name: 'provider_id',
      type: 'String',
      codec: 'ZSTD(1)',
      about: "the provider's own id of the answer, response or batch; empty when it gave none, and for corrections",
    },
    retention,
    {
      name: 'label_set',
      type: name,
      madeOf: 'toJSONString(labels)',
      about: 'JSON: all `labels` as one value, which is faster in GROUP BY; not part of `SELECT *`',
    },
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
    { name: 'id', type: 'UUID', codec: 'ZSTD(1)', about: 'of the event' },
    { name: 'at', type: time, codec: delta, about: 'time of the change' },
    { name: 'type', type: name, about: 'such as `key.created`' },
    { name: 'category', type: name, about: 'kind of the changed object, such as `key` or `budget`' },
    { name: 'subject', type: 'String', codec: 'ZSTD(1)', about: 'the id, path or name in the stream name' },
    { name: 'revision', type: 'UInt64', codec: 'T64, ZSTD(1)', about: 'number of the change in its stream, from 0' },
    actor,
    keyId,
    recordedPath,
    requestId,
    { name: 'data', type: 'String', codec: 'ZSTD(3)', about: 'JSON: data of the event' },
    retention,
  ],
};

const guardrailVerdicts: Table = {
  name: 'guardrail_verdicts',
  about: 'Verdicts of guardrails on exchanges.',
  time: 'at',
  orderBy: 'at, position',
  indexes: { near_position: near('position'), of_exchange: equals('exchange_id') },
  columns: [
    position,
    { name: 'at', type: time, codec: delta, about: 'time of the verdict' },
    { name: 'type', type: name, about: 'of the event' },
    { name: 'exchange_id', type: 'String', codec: 'ZSTD(1)', about: 'id in `exchanges`' },
    requestId,
    actor,
    keyId,
    userPath,
    { name: 'guardrail', type: name, about: 'its name' },
    { name: 'phase', type: name, about: 'phase of the exchange in which it ran; or empty' },
    { name: 'verdict', type: name, about: 'its decision; or empty' },
    { name: 'reason', type: 'String', codec: 'ZSTD(3)', about: 'why; or empty' },
    { name: 'data', type: 'String', codec: 'ZSTD(3)', about: 'JSON: data of the event' },
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
export function toldColumns({ columns }: Table): readonly string[] {
  return columns.filter(({ madeOf }) => madeOf === undefined).map((column) => column.name);
}
