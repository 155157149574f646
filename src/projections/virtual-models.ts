/** The virtual models that administrators created. */
import type { z } from 'zod';
import { virtualModelRemoved, virtualModelSaved } from '../events/catalogue/workflow.ts';
import { isA } from './known-event.ts';
import type { Projection } from './projection.ts';

/** It is replaced, never changed. */
export interface VirtualModelRecord {
  readonly model: z.infer<typeof virtualModelSaved.data>;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Of the newest event of its stream. */
  readonly revision: number;
}

export interface VirtualModelsState {
  readonly bySource: Map<string, VirtualModelRecord>;
  /** Changes with each change of the virtual models. */
  version: number;
}

export const virtualModelsView: Projection<VirtualModelsState> = {
  name: 'virtual-models',
  version: 1,
  filter: { types: ['virtual_model.'] },
  initial: () => ({ bySource: new Map(), version: 0 }),
  apply(state, event) {
    if (isA(event, virtualModelSaved)) {
      const { source } = event.data;
      const updatedAt = Math.floor(event.at);
      const createdAt = state.bySource.get(source)?.createdAt ?? updatedAt;
      state.bySource.set(source, { model: event.data, createdAt, updatedAt, revision: Number(event.revision) });
      state.version += 1;
    } else if (isA(event, virtualModelRemoved)) {
      if (state.bySource.delete(event.data.source)) state.version += 1;
    }
    return state;
  },
  save: ({ bySource }) => [...bySource.values()],
  load(saved) {
    const state = virtualModelsView.initial();
    if (!Array.isArray(saved)) throw new Error('it is not a list of virtual models');
    for (const record of saved) {
      if (!isRecord(record)) throw new Error('a saved virtual model has an unknown format');
      state.bySource.set(record.model.source, record);
    }
    state.version = state.bySource.size;
    return state;
  },
};

function isRecord(value: unknown): value is VirtualModelRecord {
  if (typeof value !== 'object' || value === null || !('model' in value)) return false;
  const { model } = value;
  if (typeof model !== 'object' || model === null) return false;
  return 'source' in model && typeof model.source === 'string' && 'targets' in model && Array.isArray(model.targets);
}
