/** `POST /admin/usage/recalculate-pricing`: prices recorded usage again at today's prices. */

import { z } from 'zod';
import type { Recalculated, Recalculation } from '../../commands/pricing/recalculate.ts';
import { refusals } from '../../commands/refusal.ts';
import type { Routes } from '../api/route-schema.ts';
import { dateRange, timeZoneOf } from '../date-range.ts';
import { eventContextOf } from '../server.ts';
import { parseUserPath } from '../user-path.ts';
import { readBody } from './read-body.ts';

export interface RecalculationOptions {
  readonly enabled: boolean;
  /** @throws Refusal 409 while another recalculation is active */
  recalculate(job: Recalculation): Promise<Recalculated>;
  /** The models of a selector: one, or those behind an alias. Undefined when the selector is unknown. */
  modelsOf(selector: string): Recalculation['scope']['models'];
  /** Milliseconds since the epoch. */
  now(): number;
  /** The route answers with the work done so far after this time, even when some remains. */
  readonly limitMs: number;
}

const word = z
  .string()
  .trim()
  .toLowerCase()
  .refine((text) => text === 'recalculate', { error: "expected 'recalculate'" });

const recalculationBody = z
  .strictObject({
    confirmation: word.optional(),
    confirm: word.optional(),
    days: z.int().min(1).max(36_500).optional(),
    start_date: z.string().optional(),
    end_date: z.string().optional(),
    user_path: z.string().optional(),
    selector: z.string().trim().min(1).max(512).optional(),
  })
  .refine(({ confirmation, confirm }) => (confirmation ?? confirm) !== undefined, {
    path: ['confirmation'],
    error: "expected 'recalculate'",
  });

export function registerRecalculation(admin: Routes, options: RecalculationOptions): void {
  const { enabled, recalculate, modelsOf, now, limitMs } = options;

  admin.post('/usage/recalculate-pricing', { config: { access: 'global-admin' } }, async (request, reply) => {
    const { days, start_date, end_date, user_path, selector } = readBody(request, recalculationBody);
    const { from, until } = dateRange({ days, start_date, end_date }, timeZoneOf(request), now());
    const userPath = user_path === undefined ? undefined : parseUserPath(user_path, 'user_path');
    const models = selector === undefined ? undefined : modelsOf(selector);
    if (selector !== undefined && models === undefined) {
      throw refusals.invalidRequest(
        `'${selector}' is not a served model. Write '<provider>/<model>' for a model that was served before.`,
        'selector',
      );
    }
    if (!enabled) throw refusals.featureUnavailable('Recalculation is switched off in the configuration.');
    const left = new AbortController();
    const leave = () => left.abort();
    reply.raw.once('close', leave);
    try {
      const signal = AbortSignal.any([left.signal, AbortSignal.timeout(limitMs)]);
      const scope = { from, until, userPath, models };
      return toWire(await recalculate({ scope, context: eventContextOf(request), signal }));
    } finally {
      reply.raw.off('close', leave);
    }
  });
}

function toWire({ status, matched, recalculated, withPricing, withoutPricing }: Recalculated): object {
  return { status, matched, recalculated, with_pricing: withPricing, without_pricing: withoutPricing };
}
