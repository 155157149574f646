/** `/admin/runtime`: the settings that the dashboard shows, and the refresh of all state. */

import { z } from 'zod';
import { refusals } from '../../commands/refusal.ts';
import type { Routes } from '../api/route-schema.ts';
import { readBody } from './read-body.ts';
import type { RefreshReport } from './runtime-refresh.ts';

export interface RuntimeOptions {
  /** Settings by name: `on`, `off`, or their other value. */
  flags(): Readonly<Record<string, string | boolean | undefined>>;
  /** One at a time. */
  refresh(): Promise<RefreshReport>;
}

const settingSchema = z.strictObject({ value: z.string() });

export function registerRuntime(admin: Routes, { flags, refresh }: RuntimeOptions): void {
  const open = { exposeHeadRoute: false, config: { access: 'scoped-admin' as const } };
  const route = { exposeHeadRoute: false, config: { access: 'global-admin' as const } };
  const config = () => {
    const shown = Object.entries(flags()).filter(([, value]) => value !== undefined && value !== '');
    return Object.fromEntries(shown.map(([name, value]) => [name, typeof value === 'boolean' ? onOff(value) : value]));
  };
  admin.get('/runtime/config', open, config);
  // Older clients of this prefix expect the dashboard's configuration at this address.
  if (admin.prefix === '/admin/api/v1') admin.get('/dashboard/config', open, config);

  // No setting can be changed at run time; the routes answer so in the format that clients expect.
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
