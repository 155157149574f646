import { describe, expect, it } from 'vitest';
import type { VirtualModelRow } from '../../../dashboard/src/pages/models/types.ts';
import {
  bodyOf,
  draftOf,
  emptyDraft,
  movedTarget,
  withNewTarget,
} from '../../../dashboard/src/pages/models/virtual-model-draft.ts';

const providers = new Set(['a', 'b']);
const row: VirtualModelRow = {
  ...{ source: 'fast', kind: 'redirect', valid: true, enabled: true, managed: false, user_paths: ['/team'] },
  targets: [
    { provider: 'a', model: 'small', weight: 3 },
    { provider: 'b', model: 'org/big' },
  ],
  ...{ strategy: 'round_robin', session_affinity: false, failover: { enabled: true, statuses: [429] } },
};

describe('the form of a virtual model', () => {
  it('saves what it began with', () => {
    expect(bodyOf(draftOf(row), providers)).toEqual({
      ...{ source: 'fast', user_paths: ['/team'], enabled: true, targets: row.targets, strategy: 'round_robin' },
      ...{ session_affinity: false, failover: { enabled: true, statuses: [429] } },
    });
  });

  it('sends the settings of a route strategy, and of no other', () => {
    const plugin = draftOf({
      ...row,
      ...{ strategy: 'plugin', strategy_plugin: 'cheapest_healthy', strategy_config: { prefer: 'fastest' } },
    });
    expect(bodyOf(plugin, providers)).toMatchObject({
      strategy: 'plugin:cheapest_healthy',
      strategy_config: { prefer: 'fastest' },
    });
    const failover = bodyOf({ ...plugin, strategy: 'failover' }, providers);
    expect(failover).not.toHaveProperty('strategy_config');
    expect(failover).toMatchObject({ targets: [{ provider: 'a', model: 'small' }, {}] });
  });

  it('sends no target selection for an access policy, which the gateway refuses there', () => {
    const draft = { ...emptyDraft('policy'), source: ' a/ ', userPaths: '/team\n\n/other ' };
    expect(bodyOf(draft, providers)).toEqual({ source: 'a/', user_paths: ['/team', '/other'], enabled: true });
  });

  it('moves a target by one place, and not beyond the ends', () => {
    const targets = withNewTarget(draftOf(row).targets);
    expect(targets.map(({ key }) => key)).toEqual([0, 1, 2]);
    expect(movedTarget(targets, 2, -1).map(({ key }) => key)).toEqual([0, 2, 1]);
    expect(movedTarget(targets, 0, -1)).toBe(targets);
    expect(movedTarget(targets, 2, 1)).toBe(targets);
  });

  it('has the failures that lead to the next target, and omits them where the gateway has its own', () => {
    const failoverOf = (changed: object, from = row) => bodyOf({ ...draftOf(from), ...changed }, providers);
    expect(failoverOf({ failoverStatuses: '429 503,', failoverPhrases: ' quota\n\nno such * model ' })).toMatchObject({
      failover: { enabled: true, statuses: [429, 503], phrases: ['quota', 'no such * model'] },
    });
    expect(failoverOf({ failoverStatuses: '' })).toMatchObject({ failover: true });
    expect(failoverOf({}, { ...row, failover: { enabled: true, statuses: [] } })).toMatchObject({
      failover: { enabled: true, statuses: [] },
    });
    expect(failoverOf({ failoverStatuses: '5xx' })).toMatchObject({ failover: { statuses: ['5xx'] } });
  });
});
