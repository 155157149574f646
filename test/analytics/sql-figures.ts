/** The same figures as in `log-figures.ts`, computed in SQL. */
import type { ClickHouseClient } from '@clickhouse/client';
import type { Figures, UsageFigures } from './log-figures.ts';

interface Counted {
  readonly name: string;
  readonly n: number | string;
}

/** @param usageTable `usage`, or the rollup over it: both must have the same figures */
export async function figuresInSql(
  client: ClickHouseClient,
  database: string,
  usageTable: 'usage' | 'usage_by_quarter_hour' = 'usage',
): Promise<Figures> {
  const rows = async <Row>(query: string): Promise<Row[]> => {
    const result = await client.query({ query: query.replaceAll('$db', database), format: 'JSONEachRow' });
    return result.json<Row>();
  };
  const record = async (query: string) => {
    return Object.fromEntries((await rows<Counted>(query)).map(({ name, n }) => [name, Number(n)]));
  };
  const total = await record(`SELECT 'events' AS name, count() AS n FROM $db.events
    UNION ALL SELECT 'bodyBytes', sum(body_bytes) FROM $db.events
    UNION ALL SELECT 'keptBytes', sum(length(body)) FROM $db.events
    UNION ALL SELECT 'positions', uniqExact(position) FROM $db.events
    UNION ALL SELECT 'attempts', count() FROM $db.attempts
    UNION ALL SELECT 'failedAttempts', sum(failed) FROM $db.attempts
    UNION ALL SELECT 'adminChanges', count() FROM $db.admin_changes`);
  if (total['positions'] !== total['events'])
    throw new Error(`${total['events']} events at ${total['positions']} positions`);
  const words = async (query: string) => {
    const found = await rows<{ name: string; n: readonly (number | string)[] }>(query);
    return Object.fromEntries(found.map(({ name, n }) => [name, n.join(' ')]));
  };
  const models = await rows<UsageFigures & { model: string; known: Record<string, number | string> }>(
    `SELECT model, sum(requests) AS requests, sum(input_tokens) AS input, sum(output_tokens) AS output,
      sum(cached_input_tokens) AS cached,
      if(sum(input_priced) = 0, NULL, toString(sum(input_cost))) AS inputCost,
      if(sum(output_priced) = 0, NULL, toString(sum(output_cost))) AS outputCost,
      if(sum(priced) = 0, NULL, toString(sum(total_cost))) AS totalCost
    FROM $db.${usageTable} GROUP BY model`,
  );
  return {
    events: total['events'] ?? 0,
    bodyBytes: total['bodyBytes'] ?? 0,
    keptBytes: total['keptBytes'] ?? 0,
    byType: await record('SELECT type AS name, count() AS n FROM $db.events GROUP BY type'),
    outcomes: await record('SELECT outcome AS name, sum(requests) AS n FROM $db.exchanges GROUP BY outcome'),
    attempts: total['attempts'] ?? 0,
    failedAttempts: total['failedAttempts'] ?? 0,
    usage: Object.fromEntries(
      models.map(({ model, requests, input, output, cached, inputCost, outputCost, totalCost }) => [
        model,
        {
          requests: Number(requests),
          input: Number(input),
          output: Number(output),
          cached: Number(cached),
          inputCost,
          outputCost,
          totalCost,
        },
      ]),
    ),
    adminChanges: total['adminChanges'] ?? 0,
    verdicts: await words(`SELECT concat(type, ' ', phase, ' ', verdict, ' ', toString(decided)) AS name,
      [count(), sum(edited), sum(arraySum(mapValues(findings))), sum(duration_ns)] AS n
      FROM $db.guardrail_verdicts GROUP BY name`),
    guarded:
      await words(`SELECT concat(workflow_scope, if(workflow_version = 0, '', concat(' ', toString(workflow_version), ' ')),
      arrayStringConcat(workflow_off, ','), ' ', guardrail_verdict) AS name,
      [sum(requests), sum(guardrails_edited), sum(guardrail_runs)] AS n FROM $db.exchanges GROUP BY name`),
  };
}
