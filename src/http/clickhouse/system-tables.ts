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
