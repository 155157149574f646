/** `npm run dashboard`: builds the dashboard into `dashboard/dist`. */
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BuildFailed, buildDashboard } from './dashboard-build.mjs';
import { InstallFailed, install, installedNode, majorOf, oldestUsableNode } from './install.mjs';
import { say } from './say.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const gateway = join(root, 'src', 'main.ts');

/** The project's Node; where it is not installed, this one if it is new enough. */
async function nodeToBuildWith() {
  const installed = installedNode(root, gateway);
  if (installed !== undefined) return installed;
  return majorOf(process.versions.node) >= oldestUsableNode ? process.execPath : install(root, gateway);
}

try {
  await buildDashboard(root, await nodeToBuildWith());
  say('the dashboard is in dashboard/dist; a running gateway serves it after its next start');
} catch (error) {
  const isExpected = error instanceof BuildFailed || error instanceof InstallFailed;
  say(isExpected ? error.message : error.stack);
  process.exitCode = 1;
}
