import { expect, it } from 'vitest';
import { isMoment } from '../../../dashboard/src/app/moment.ts';

it.each(['0', '120394', '2026-02-28', '2026-02-28T10:00:00Z', '2026-02-28T10:00:00.123456Z', '2026-02-28T10:00+01:00'])(
  'accepts %s',
  (text) => {
    expect(isMoment(text)).toBe(true);
  },
);

it.each(['', '-1', 'garbage', '2026-02-30', '2026-13-01', '2026-02-28T10:00:00', '2026-02-28T25:00:00Z', '1e3', 'now'])(
  'refuses "%s"',
  (text) => {
    expect(isMoment(text)).toBe(false);
  },
);
