/** The dashboard of the gateway, from the folder into which its build writes. */
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import type { Routes } from '../../http/api/route-schema.ts';
import { type Bundle, readBundle } from '../../http/dashboard/bundle.ts';
import { registerDashboard } from '../../http/dashboard/dashboard.ts';

export type DashboardState = 'on' | 'off' | 'not built';

const builtFolder = fileURLToPath(new URL('../../../dashboard/dist', import.meta.url));

export interface DashboardOptions {
  readonly config: Pick<Config, 'admin'>;
  /** Default: where `npm run dashboard` builds it. */
  readonly folder: string | undefined;
  readonly logger: Logger;
}

/** Does nothing while the dashboard is off. */
export function registerDashboardRoutes(app: Routes, { config, folder, logger }: DashboardOptions): DashboardState {
  if (!config.admin.uiEnabled) return 'off';
  const bundle = bundleIn(folder ?? builtFolder, logger);
  registerDashboard(app, bundle);
  return bundle === undefined ? 'not built' : 'on';
}

function bundleIn(folder: string, logger: Logger): Bundle | undefined {
  try {
    return readBundle(folder);
  } catch (error) {
    logger.error({ err: error }, 'the dashboard could not be read');
    return undefined;
  }
}
