/** Virtual models, guardrails, and the active workflows, with where the log has every version. */
import type { z } from 'zod';
import { guardrailRemoved, guardrailSaved } from '../events/catalogue/guardrail.ts';
import {
  virtualModelRemoved,
  virtualModelSaved,
  workflowCreated,
  workflowDeactivated,
} from '../events/catalogue/workflow.ts';
import { type EpochMs, idOf } from '../events/event.ts';
import { administeredView } from './administered.ts';
import { isA, type Projection, savedAsItIs } from './projection.ts';

export const virtualModelsView = administeredView({
  name: 'virtual-models',
  version: 2,
  saved: virtualModelSaved,
  removed: virtualModelRemoved,
  key: 'source',
});

export const guardrailsView = administeredView({
  name: 'guardrails',
  version: 2,
  saved: guardrailSaved,
  removed: guardrailRemoved,
  key: 'name',
});

/** The active version of a scope. It is replaced, never changed. */
export interface WorkflowRecord {
  readonly workflow: z.infer<typeof workflowCreated.data>;
  readonly createdAt: EpochMs;
  /** Of its event. */
  readonly revision: number;
}

/** Where the log has a version: versions that are not active are read when they are needed. */
export interface VersionPlace {
  /** Of its scope. */
  readonly key: string;
  readonly revision: number;
}

export interface WorkflowsState {
  /** By the key of the scope. */
  readonly active: Map<string, WorkflowRecord>;
  /** By the id of the version. */
  readonly places: Map<string, VersionPlace>;
  /** Changes with each change of a workflow. */
  version: number;
}

export const workflowsView: Projection<WorkflowsState> = {
  name: 'workflows',
  version: 3,
  filter: { types: ['workflow.'] },
  initial: () => ({ active: new Map(), places: new Map(), version: 0 }),
  apply(state, event) {
    const key = idOf(event.stream);
    if (isA(event, workflowCreated)) {
      const revision = Number(event.revision);
      state.active.set(key, { workflow: event.data, createdAt: Math.floor(event.at), revision });
      state.places.set(event.data.id, { key, revision });
      state.version += 1;
    } else if (isA(event, workflowDeactivated) && state.active.get(key)?.workflow.id === event.data.id) {
      state.active.delete(key);
      state.version += 1;
    }
    return state;
  },
  ...savedAsItIs<WorkflowsState>(),
};
