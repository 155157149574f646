/** `POST /admin/usage/recalculate-pricing`: prices recorded usage again at today's prices. */
import { z } from 'zod';
import type { Recalculated, Recalculation } from '../../commands/pricing/recalculate.ts';
import { refusals } from '../../commands/refusal.ts';
import { globalAdmin } from '../api/declare.ts';
import { jsonAnswer, type Routes } from '../api/route-schema.ts';
import { dateRange, timeZoneOf } from '../dates.ts';
import { parseUserPath } from '../request-head.ts';
import { eventContextOf } from '../server.ts';

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
    confirmation: word.optional().describe('`recalculate`; required'),
    confirm: word.optional().describe('Other name of `confirmation`'),
    days: z.int().min(1).max(36_500).optional(),
    start_date: z.string().optional().describe('`YYYY-MM-DD`, inclusive'),
    end_date: z.string().optional().describe('`YYYY-MM-DD`, inclusive'),
    user_path: z.string().optional().describe('A user path, with all paths below it'),
    selector: z.string().trim().min(1).max(512).optional().describe('`<provider>/<model>`, or an alias'),
  })
  .refine(({ confirmation, confirm }) => (confirmation ?? confirm) !== undefined, {
    path: ['confirmation'],
    error: "expected 'recalculate'",
  });

const outcome = z.object({
  status: z.enum(['ok', 'partial']),
  matched: z.int().describe('Recorded usages in scope'),
  recalculated: z.int().describe('Those of them with another cost now'),
  with_pricing: z.int(),
  without_pricing: z.int(),
});

const recalculatePricing = globalAdmin('recalculatePricing', 'Recalculate past costs at current prices', {
  description:
    'Corrections are appended; recorded events do not change. `partial`: the time limit was reached, or the caller ' +
    'disconnected; repeat the request for the rest.',
  requestHeaders: { 'X-Gateway-Timezone': z.string().describe('The zone in which days begin. Default: UTC') },
  body: recalculationBody,
  example: { confirmation: 'recalculate', days: 7 },
  response: { 200: jsonAnswer('The numbers of changed and unchanged usages', outcome) },
  errors: [409],
});

export function registerRecalculation(admin: Routes, options: RecalculationOptions): void {
  const { enabled, recalculate, modelsOf, now, limitMs } = options;

  admin.post('/usage/recalculate-pricing', recalculatePricing, async (request, reply) => {
    const { days, start_date, end_date, user_path, selector } = request.body;
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

function toWire({ status, matched, recalculated, withPricing, withoutPricing }: Recalculated): z.infer<typeof outcome> {
  return { status, matched, recalculated, with_pricing: withPricing, without_pricing: withoutPricing };
}
