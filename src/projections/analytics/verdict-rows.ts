/** The rows of `guardrail_verdicts`: one for each run of a guardrail. Pure; values are in the order of the columns. */
import type { z } from 'zod';
import type { requestReceived } from '../../events/catalogue/exchange.ts';
import { idOf, type RecordedEvent } from '../../events/event.ts';
import { type Applied, decidingRun } from '../verdicts.ts';
import { keyIdOrEmpty, type Retention } from './rows.ts';
import { verdictRowId } from './tables.ts';
import { numbersByName, type TsvRows, time, tsvText } from './tsv.ts';

export type Workflow = z.infer<typeof requestReceived.data>['workflow'];

/** @param workflow of the request; undefined when it has none or is not known */
export function writeVerdicts(
  rows: TsvRows,
  event: RecordedEvent<string, Applied>,
  position: number,
  workflow: Workflow,
  retention: Retention,
): void {
  const { context, stream, data } = event;
  const deciding = decidingRun(data);
  for (const [index, run] of data.runs.entries()) {
    rows.write(
      [
        position,
        time(event.at),
        tsvText(run.type),
        tsvText(idOf(stream)),
        tsvText(context.requestId),
        tsvText(context.actor),
        tsvText(keyIdOrEmpty(context.actor)),
        tsvText(context.userPath ?? '/'),
        tsvText(run.guardrail),
        data.phase,
        run.verdict,
        index,
        run.step,
        data.attempt ?? 0,
        tsvText(run.code),
        tsvText(run.message),
        tsvText(run.error),
        tsvText(run.failMode),
        Number(run.edited),
        numbersByName(run.findings ?? {}),
        run.durationNs,
        Number(index === deciding),
        tsvText(workflow?.id),
        workflow?.version ?? 0,
        tsvText(workflow?.scope),
        retention.audit,
      ].join('\t'),
    );
    rows.end(verdictRowId(position, index));
  }
}
