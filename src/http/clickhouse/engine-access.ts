/**
 * Access control inside the embedded engine, independent of the query: the grants, constants and row policies of its
 * one user (chDB has no others). The check of readers' queries does not rely on it, and it does not rely on that check.
 *
 * The user has two roles. A connection starts with both; a reader's connection keeps only `reader`. ClickHouse lets
 * every user read `system.*`, so row policies hide the tables there.
 */
import { hiddenSystemTables } from './system-tables.ts';

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
export const constantSettings: readonly string[] = [
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
