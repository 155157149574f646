/** Workflows that are in the log before a gateway starts. */
import { join } from 'node:path';
import { canonicalSha256 } from '../../src/commands/canonical-json.ts';
import { payloadJson, type WorkflowFeatures, workflowStream } from '../../src/commands/workflows/workflow.ts';
import { workflowCreated } from '../../src/events/catalogue/workflow.ts';
import type { EventLog, StreamWrite } from '../../src/events/log.ts';
import { openLog } from '../../src/events/open-log.ts';
import { admin, allOn, draft, steps } from './made.ts';

export interface LoggedWorkflow {
  readonly id: string;
  readonly version?: number;
  readonly userPath: string;
  /** The other features are on. */
  readonly features?: Partial<WorkflowFeatures>;
  /** Names of guardrails of the prompt phase. */
  readonly refs?: readonly string[];
}

export function workflowWrite({ id, version = 1, userPath, features, refs = [] }: LoggedWorkflow): StreamWrite {
  const made = draft({ userPath, payload: { ...steps(...refs), features: { ...allOn, ...features } } });
  const payloadSha256 = canonicalSha256(payloadJson(made.payload));
  const event = workflowCreated.create({ id, version, ...made, payloadSha256 }, admin);
  return { stream: workflowStream({ userPath }), events: [event], expectedRevision: 'any' };
}

/** Opens the log of the data folder, which no gateway uses. */
export async function inLog<Result>(dataDir: string, work: (log: EventLog) => Promise<Result>): Promise<Result> {
  const log = await openLog(`file:${join(dataDir, 'log')}`);
  try {
    return await work(log);
  } finally {
    await log.close();
  }
}
