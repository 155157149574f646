/**
 * Access control inside the embedded engine, independent of the query: the grants, constants and row policies of its
 * one user (chDB has no others). The check of readers' queries does not rely on it, and it does not rely on that check.
 *
 * The user has two roles. A connection starts with both; a reader's connection keeps only `reader`. ClickHouse lets
 * every user read `system.*`, so row policies hide the tables there.
 */
import { literal } from './normal-form.ts';

export interface EngineAccess {
  /** Databases that the writer creates and fills, and readers read. Plain names; no other database is accessible. */
  readonly databases: readonly string[];
  /** Whether the writer may also rename and drop these databases, for a rebuild. Default: it may not. */
  readonly drop?: boolean;
  /** Whether the writer may also read and write files, for an export. Default: it may not. */
  readonly files?: boolean;
}

/** Restricts a connection to reading until it is closed. */
export const becomeReader = 'SET ROLE reader';

/** Settings through which a query can name files, hosts, other languages or further SQL. No user can change them. */
const constantSettings: readonly string[] = [
  'additional_result_filter',
  'additional_table_filters',
  'allow_archive_path_syntax',
  'allow_introspection_functions',
  'dialect',
  'dynamic_disk_allow_from_env',
  'dynamic_disk_allow_include',
  'filesystem_cache_name',
  'format_avro_schema_registry_url',
  'format_schema',
  'format_schema_source',
  'format_template_resultset',
  'format_template_row',
  'function_implementation',
  'implicit_table_at_top_level',
  'input_format_record_errors_file_path',
  'into_outfile_create_parent_directories',
  'metrics_perf_events_list',
  'output_format_schema',
  'promql_database',
  'promql_table',
  'rename_files_after_processing',
  's3_allow_server_credentials_in_user_queries',
  's3queue_default_zookeeper_path',
  'trace_profile_events_list',
  'url_base',
];

const MIB = 1024 * 1024;

/**
 * Limits of each query of a reader: the most that any user can set. 0, which is no limit, cannot be set. The writer sets
 * none of them, and has none.
 */
export const queryLimits = {
  max_execution_time: 60,
  max_memory_usage: 300 * MIB,
  max_rows_to_read: 1_000_000_000,
  max_result_rows: 1_000_000,
  max_result_bytes: 64 * MIB,
};

/** The smallest time that the engine does not store as 0, in seconds. */
const SHORTEST_TIME = '0.000001';

const writing = 'SELECT, INSERT, CREATE DATABASE, CREATE TABLE, CREATE VIEW, ALTER, DROP TABLE, SHOW, OPTIMIZE';

/** The engine's `users_config`. @throws Error for a database whose name is not plain */
export function usersConfig({ databases, drop = false, files = false }: EngineAccess): string {
  for (const name of databases) if (!/^\w+$/.test(name)) throw new Error(`${JSON.stringify(name)} is not a plain name`);
  const reader = databases.map((name) => `GRANT SELECT, SHOW ON ${name}.*`);
  const writer = databases.map((name) => `GRANT ${writing}${drop ? ', DROP' : ''} ON ${name}.*`);
  // ClickHouse treats a table function as a temporary table.
  if (files) writer.push('GRANT READ, WRITE ON FILE', 'GRANT CREATE TEMPORARY TABLE ON *.*');
  const constants = constantSettings.map((name) => `<${name}><const/></${name}>`);
  const limits = Object.entries(queryLimits).map(([name, most]) => {
    const least = name === 'max_execution_time' ? SHORTEST_TIME : '1';
    return `<${name}><min>${least}</min><max>${most}</max></${name}>`;
  });
  const hidden = hiddenSystemTables.map((name) => `<${name}><filter>has(currentRoles(), 'writer')</filter></${name}>`);
  return `<clickhouse>
<profiles><default><constraints>
${[...constants, ...limits].join('\n')}
</constraints></default></profiles>
<quotas><default/></quotas>
<roles>
<reader><grants>${queries(reader)}</grants></reader>
<writer><grants>${queries(writer)}</grants></writer>
</roles>
<users><default>
<password/>
<networks><ip>127.0.0.1</ip><ip>::1</ip></networks>
<profile>default</profile>
<quota>default</quota>
<grants>${queries(['GRANT reader, writer'])}</grants>
<databases><system>
${hidden.join('\n')}
</system></databases>
</default></users>
</clickhouse>
`;
}

function queries(grants: readonly string[]): string {
  return grants.map((grant) => `<query>${grant}</query>`).join('');
}

/** ClickHouse's system tables and their visibility to readers. A test compares both lists with the engine's own. */
const words = (text: string): readonly string[] => text.trim().split(/\s+/);

/** Features of the engine, and the content of the reader's own databases. */
export const readableSystemTables: ReadonlySet<string> = new Set(
  words(`
    aggregate_function_combinators build_options codecs collations columns constraints contributors current_roles
    data_skipping_index_types data_skipping_indices data_type_families database_engines databases documentation
    enabled_roles formats functions keywords licenses numbers numbers_mt one primes projections settings table_engines
    table_functions tables time_zones tokenizers unicode zeros zeros_mt
  `),
);

/** Views over `tables`, `columns` and `databases`. */
export const readableInformationSchema: ReadonlySet<string> = new Set(
  words(
    'tables columns views schemata key_column_usage referential_constraints statistics engines collations character_sets',
  ),
);

/** Others' queries, the machine, its disks and files, and background work. Empty for readers. */
export const hiddenSystemTables: readonly string[] = words(`
  aggregated_zookeeper_log asynchronous_insert_log asynchronous_inserts asynchronous_loader asynchronous_metric_log
  asynchronous_metrics azure_queue_log azure_queue_metadata_cache azure_queue_settings background_schedule_pool
  background_schedule_pool_log backup_log backups blob_storage_log certificates clusters completions crash_log dashboards
  database_replicas dead_letter_queue delta_lake_metadata_log detached_parts detached_tables dictionaries
  dictionary_layouts dictionary_sources dimensional_metrics disk_types disks distributed_ddl_queue distribution_queue
  dns_cache dropped_tables dropped_tables_parts error_log errors events fail_points filesystem_cache
  filesystem_cache_log filesystem_cache_settings filesystem_read_prefetches_log grants graphite_retentions
  histogram_metric_log histogram_metrics hypothetical_indexes iceberg_files iceberg_history iceberg_metadata_log
  instrumentation jemalloc_bins jemalloc_profile_text jemalloc_stats kafka_consumers latency_log macros masking_policies
  merge_tree_settings merges metric_log metrics models moves mutations named_collections opentelemetry_span_log
  part_log part_moves_between_shards parts parts_columns predicate_statistics_log privileges processes
  processors_profile_log projection_parts projection_parts_columns query_cache query_condition_cache query_log
  query_metric_log query_thread_log query_views_log quota_limits quota_usage quotas quotas_usage remote_data_paths
  replicas replicated_fetches replicated_merge_tree_settings replication_queue resources rocksdb role_grants roles
  row_policies s3_queue_settings s3queue_log s3queue_metadata_cache scheduler schema_inference_cache server_settings
  session_log settings_changes settings_profile_elements settings_profiles stack_trace storage_policies symbols text_log
  trace_log transactions transactions_info_log user_defined_functions user_directories user_processes users
  view_refreshes warnings workloads zookeeper zookeeper_connection zookeeper_connection_log zookeeper_info zookeeper_log
`);

/** The name of a database, table, user or profile in backticks, so that ClickHouse reads any characters in it. */
export function quotedIdentifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

/** The statements that create the account of analysts on a ClickHouse server, with its rights and limits. */
interface AnalystAccount {
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

/** Names on the server: another version may lack some. */
interface ServerNames {
  readonly settings: ReadonlySet<string>;
  readonly systemTables: ReadonlySet<string>;
}

interface Statement {
  readonly text: string;
  /** The statement without the password. */
  readonly shown: string;
}

/** Settings and tables whose names are read from the server. */
export const allowedNames = { settings: constantSettings, systemTables: [...readableSystemTables] };

/**
 * The statements, to be executed in this order by a user who may manage access; repeatable with the same result. Grants
 * that the user already had remain.
 */
export function analystAccount({ user, password, database }: AnalystAccount, server: ServerNames): Statement[] {
  const [name, profile] = [quotedIdentifier(user), quotedIdentifier(`${database}_analyst`)];
  // The server refuses a setting above its maximum, and below 1, which would mean no limit.
  const bounded = Object.entries(queryLimits).map(([setting, most]) => `${setting} = ${most} MIN 1 MAX ${most}`);
  const constant = constantSettings.filter((setting) => server.settings.has(setting));
  const settings = ['readonly = 2', ...bounded, ...constant.map((setting) => `${setting} CONST`)];
  const tables = [...readableSystemTables].filter((table) => server.systemTables.has(table)).sort();
  const own = tables.map((table) => `SELECT ON system.${quotedIdentifier(table)}`);
  const account = (secret: string) =>
    `${name} IDENTIFIED WITH sha256_password BY ${secret} SETTINGS PROFILE ${profile}`;
  return [
    open(`CREATE DATABASE IF NOT EXISTS ${quotedIdentifier(database)}`),
    open(`CREATE SETTINGS PROFILE OR REPLACE ${profile} SETTINGS ${settings.join(', ')}`),
    masked((secret) => `CREATE USER IF NOT EXISTS ${account(secret)}`, password),
    masked((secret) => `ALTER USER ${account(secret)}`, password),
    open(`GRANT ${[`SELECT ON ${quotedIdentifier(database)}.*`, ...own].join(', ')} TO ${name}`),
  ];
}

/** Queries that the server must refuse to the account: the processes of others, and a connection to another server. */
export const refusedQueries: readonly string[] = [
  'SELECT count() FROM system.processes',
  "SELECT * FROM url('http://127.0.0.1:1/', 'TSV', 'a String')",
];

function open(text: string): Statement {
  return { text, shown: text };
}

function masked(write: (secret: string) => string, password: string): Statement {
  return { text: write(literal(password)), shown: write("'***'") };
}
