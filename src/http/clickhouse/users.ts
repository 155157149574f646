/** Users of the embedded ClickHouse and their limits. */
import { timingSafeEqual } from 'node:crypto';
import { type ClickHouseException, clickHouseError } from './embedded-clickhouse.ts';
import { queryLimits } from './engine-access.ts';
import { LONGEST_TEXT } from './normal-form.ts';
import type { TurnLimits } from './turns.ts';

/**
 * Settings that readers may choose, beside the limits: the format of results, and how values are read and compared.
 * Listed by full name: others that begin with `format_` or `output_format_` name files to read and write.
 */
const readerSettings: readonly string[] = `
  aggregate_functions_null_for_empty bool_false_representation bool_true_representation
  cast_ipv4_ipv6_default_on_conversion_error cast_keep_nullable cast_string_to_date_time_mode
  count_distinct_implementation date_time_64_output_format_cut_trailing_zeros_align_to_groups_of_thousands
  date_time_input_format date_time_output_format date_time_overflow_behavior empty_result_for_aggregation_by_empty_set
  extremes final format_csv_delimiter format_csv_null_representation format_custom_escaping_rule
  format_custom_field_delimiter format_custom_result_after_delimiter format_custom_result_before_delimiter
  format_custom_row_after_delimiter format_custom_row_before_delimiter format_custom_row_between_delimiter
  format_json_object_each_row_column_for_object_name format_tsv_null_representation group_by_use_nulls
  join_default_strictness join_use_nulls limit log_comment offset optimize_use_projections
  output_format_always_write_decimal_point_in_float_and_decimal output_format_arrow_compression_method
  output_format_arrow_fixed_string_as_fixed_byte_array output_format_arrow_low_cardinality_as_dictionary
  output_format_arrow_string_as_string output_format_avro_codec output_format_avro_rows_in_file
  output_format_avro_string_column_pattern output_format_avro_sync_interval
  output_format_binary_encode_types_in_binary_format output_format_binary_write_json_as_string
  output_format_bson_string_as_string output_format_csv_crlf_end_of_line
  output_format_csv_serialize_tuple_into_separate_columns output_format_decimal_trailing_zeros
  output_format_float_precision output_format_json_array_of_rows output_format_json_escape_forward_slashes
  output_format_json_map_as_array_of_tuples output_format_json_named_tuples_as_objects
  output_format_json_pretty_print output_format_json_quote_64bit_floats output_format_json_quote_64bit_integers
  output_format_json_quote_decimals output_format_json_quote_denormals
  output_format_json_skip_null_value_in_named_tuples output_format_json_validate_utf8
  output_format_markdown_escape_special_characters output_format_msgpack_uuid_representation
  output_format_native_encode_types_in_binary_format output_format_native_write_json_as_string
  output_format_parquet_compliant_nested_types output_format_parquet_compression_method
  output_format_parquet_date_as_uint16 output_format_parquet_datetime_as_uint32
  output_format_parquet_enum_as_byte_array output_format_parquet_fixed_string_as_fixed_byte_array
  output_format_parquet_string_as_string output_format_parquet_version output_format_pretty_color
  output_format_pretty_display_footer_column_names output_format_pretty_display_footer_column_names_min_rows
  output_format_pretty_fallback_to_vertical output_format_pretty_glue_chunks output_format_pretty_grid_charset
  output_format_pretty_highlight_digit_groups output_format_pretty_highlight_trailing_spaces
  output_format_pretty_max_column_name_width_cut_to output_format_pretty_max_column_name_width_min_chars_to_cut
  output_format_pretty_max_column_pad_width output_format_pretty_max_rows output_format_pretty_max_value_width
  output_format_pretty_max_value_width_apply_for_single_value output_format_pretty_multiline_fields
  output_format_pretty_named_tuples_as_json output_format_pretty_row_numbers
  output_format_pretty_single_large_number_tip_threshold output_format_sql_insert_include_column_names
  output_format_sql_insert_quote_names output_format_sql_insert_table_name output_format_trim_fixed_string
  output_format_tsv_crlf_end_of_line output_format_values_escape_quote_with_quote output_format_write_statistics
  prefer_column_name_to_alias session_timezone short_circuit_function_evaluation totals_mode transform_null_in
  union_default_mode use_client_time_zone
`
  .trim()
  .split(/\s+/);

export interface User {
  readonly name: string;
  readonly password: string;
  /** Undefined: a writer, with the engine's rights of one. With limits, a user only reads. */
  readonly limits: ReaderLimits | undefined;
  /** Whether the sender records the queries. Those of every other user with limits are recorded before execution. */
  readonly recordedByCaller?: boolean;
}

/** For each query. */
export interface ReaderLimits {
  readonly seconds: number;
  /** Of the one query that runs in the place for large ones. */
  readonly memoryBytes: number;
  /** Of each other query. One that needs more is executed again in the place for large queries. */
  readonly smallMemoryBytes: number;
  readonly rowsToRead: number;
  readonly resultRows: number;
  readonly resultBytes: number;
  /** Shared by the users with the same limits. */
  readonly turns: TurnLimits;
}

const MIB = 1024 * 1024;

export const analystLimits: ReaderLimits = {
  seconds: queryLimits.max_execution_time,
  memoryBytes: queryLimits.max_memory_usage,
  smallMemoryBytes: 64 * MIB,
  rowsToRead: queryLimits.max_rows_to_read,
  resultRows: queryLimits.max_result_rows,
  /** Held in memory until it is sent. */
  resultBytes: queryLimits.max_result_bytes,
  turns: { quick: 2, slow: 2, slowAfterMs: 5000, waiting: 100 },
};

/** Limits of the gateway's own queries: a person waits for the answer. */
export const gatewayLimits: ReaderLimits = {
  ...analystLimits,
  seconds: 15,
  smallMemoryBytes: 100 * MIB,
  resultRows: 200_000,
  turns: { quick: 4, slow: 0, slowAfterMs: 15_000, waiting: 1000 },
};

/** The place for large queries: one at a time of all users with the same turns. */
export const largeTurns: TurnLimits = { quick: 1, slow: 0, slowAfterMs: 10_000, waiting: 100 };

/**
 * The most memory that all queries of readers use at one time. The engine's own limit is above it, so that a query that
 * needs too much memory meets its own limit, and never takes memory that the writer or another user needs.
 */
export const readersMemoryBytes = [analystLimits, gatewayLimits]
  .map(({ memoryBytes, smallMemoryBytes, turns }) => memoryBytes + (turns.quick + turns.slow) * smallMemoryBytes)
  .reduce((sum, bytes) => sum + bytes);

/** The user with this name and password. @throws ClickHouseException 516 */
export function authenticated(users: readonly User[], name: string, password: string): User {
  const user = users.find((one) => one.name === name);
  if (user !== undefined && same(user.password, password)) return user;
  throw clickHouseError(
    516,
    'AUTHENTICATION_FAILED',
    `${name}: Authentication failed: password is incorrect, or there is no user with such name`,
  );
}

function same(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}

/** Initial settings of a limited user's query; the query may only lower them. */
function limitSettings(limits: ReaderLimits): ReadonlyMap<string, string> {
  return new Map(
    Object.entries({
      max_execution_time: limits.seconds,
      max_memory_usage: limits.memoryBytes,
      max_rows_to_read: limits.rowsToRead,
      max_result_rows: limits.resultRows,
      max_result_bytes: limits.resultBytes,
      max_query_size: LONGEST_TEXT,
      // Counted with subqueries and aliases expanded: planning 20,000 takes about a second, and cannot be stopped.
      max_expanded_ast_elements: 20_000,
      result_overflow_mode: 'throw',
      timeout_overflow_mode: 'throw',
      max_temporary_data_on_disk_size_for_query: 1024 ** 3,
      max_bytes_before_external_group_by: Math.floor(limits.memoryBytes / 2),
      max_bytes_before_external_sort: Math.floor(limits.memoryBytes / 2),
    }).map(([name, value]) => [name, String(value)]),
  );
}

/** Settings of inserts, which some drivers send with every query. They are ignored for readers. */
const ofInserts: ReadonlySet<string> = new Set(['async_insert', 'wait_for_async_insert']);

/** Further settings that a reader's query may have, with their largest value if there is one. */
const forReaders = new Map<string, number | undefined>([
  ...readerSettings.map((name) => [name, undefined] as const),
  ['max_block_size', 1_000_000],
  ['max_threads', 16],
]);

export interface ReaderAttempt {
  readonly settings: ReadonlyMap<string, string>;
  /** Whether it needs the place for large queries. */
  readonly isLarge: boolean;
}

/**
 * How a query with these settings is executed: with little memory, and again with more when that was too little; once
 * when it requests an amount.
 * @throws ClickHouseException 452 for a setting that readers may not use, or beyond a limit
 */
export function attemptsOf(
  limits: ReaderLimits,
  requestedSettings: ReadonlyMap<string, string>,
): readonly ReaderAttempt[] {
  const settings = withinLimits(limitSettings(limits), requestedSettings);
  const isLarge = Number(settings.get('max_memory_usage')) > limits.smallMemoryBytes;
  if (!isLarge || requestedSettings.has('max_memory_usage')) return [{ settings, isLarge }];
  const small = new Map([...settings, ['max_memory_usage', String(limits.smallMemoryBytes)]]);
  return [
    { settings: small, isLarge: false },
    { settings, isLarge },
  ];
}

/** The limits, changed and extended by the requested settings. @throws ClickHouseException 452, as above */
export function withinLimits(
  limits: ReadonlyMap<string, string>,
  requestedSettings: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const inForce = new Map(limits);
  for (const [name, value] of requestedSettings) {
    // Ignored: the query is read-only in any case.
    if ((name === 'readonly' && /^[12]$/.test(value)) || ofInserts.has(name)) continue;
    const limit = Number(inForce.get(name) ?? forReaders.get(name));
    if (name.startsWith('max_') && Number.isFinite(limit)) {
      const wanted = asStored(name, value);
      if (!(wanted > 0 && wanted <= limit)) throw refused(name, `should be between 1 and ${limit}`);
      inForce.set(name, String(wanted));
    } else if (name.endsWith('overflow_mode') && inForce.has(name)) {
      // A result that ends silently at a limit would be taken for the complete one.
      if (value !== 'throw' && value !== 'break') throw refused(name, 'is throw or break');
      inForce.set(name, value);
    } else if (forReaders.has(name)) inForce.set(name, value);
    else throw refused(name, 'is not for readers');
  }
  return inForce;
}

/** The number that ClickHouse stores for a limit: whole microseconds for a time, whole numbers else. 0 is no limit. */
function asStored(name: string, value: string): number {
  const unit = name === 'max_execution_time' ? 1e6 : 1;
  return Math.floor(Number(value) * unit) / unit;
}

function refused(name: string, why: string): ClickHouseException {
  return clickHouseError(452, 'SETTING_CONSTRAINT_VIOLATION', `Setting ${name} ${why}`);
}
