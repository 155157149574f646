/** `/admin/runtime`: what is switched on, for the dashboard, and the reading of everything anew. */
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { refusals } from '../../commands/refusal.ts';
import { readBody } from './read-body.ts';
import type { RefreshReport } from './runtime-refresh.ts';

export interface RuntimeOptions {
  /** `on` and `off`, and what has another value, by the names of the settings. */
  flags(): Readonly<Record<string, string | boolean | undefined>>;
  /** One at a time. */
  refresh(): Promise<RefreshReport>;
}

const settingSchema = z.strictObject({ value: z.string() });

export function registerRuntime(admin: FastifyInstance, { flags, refresh }: RuntimeOptions): void {
  const open = { exposeHeadRoute: false, config: { access: 'scoped-admin' as const } };
  const route = { exposeHeadRoute: false, config: { access: 'global-admin' as const } };
  const config = () => {
    const told = Object.entries(flags()).filter(([, value]) => value !== undefined && value !== '');
    return Object.fromEntries(told.map(([name, value]) => [name, typeof value === 'boolean' ? onOff(value) : value]));
  };
  admin.get('/runtime/config', open, config);
  // It had moved before the older name of the API was given up.
  if (admin.prefix === '/admin/api/v1') admin.get('/dashboard/config', open, config);

  // There is no setting that could be changed at run time; the routes say so in the shape that clients know.
  admin.get('/runtime/settings', route, () => ({ settings: [] }));
  admin.put<{ Params: { key: string } }>('/runtime/settings/:key', route, (request) => {
    readBody(request, settingSchema);
    throw refusals.notFound('runtime setting', request.params.key, 'runtime_setting_not_found');
  });

  admin.post('/runtime/refresh', route, () => refresh());
}

function onOff(value: boolean): string {
  return value ? 'on' : 'off';
}
