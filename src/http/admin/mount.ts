/** The admin API, mounted at `/admin` and, for older clients, at `/admin/api/v1`. */
import type { Routes, ZodTypes } from '../api/route-schema.ts';
import { validateBySchema } from '../api/validation.ts';
import { type ReadToPresent, readAtPresent } from '../server.ts';
import { guardAdmin } from './admin-scope.ts';
import { requireETags } from './conditional.ts';

/** Answers contain recorded content, and once the secret of a key. */
const SECURITY = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' };

const LEGACY = {
  ...SECURITY,
  deprecation: 'true',
  sunset: 'Sun, 09 Aug 2026 00:00:00 GMT',
};

const LEGACY_PREFIX = '/admin/api/v1';

/** The path of this request below `/admin` (RFC 5829 §3.2). A link of the handler is appended to it. */
function successorOf(url: string): string {
  const [path = ''] = url.slice(LEGACY_PREFIX.length).split('?');
  return `</admin${path.replace(/[<>"\s]/g, encodeURIComponent)}>; rel="successor-version"`;
}

/**
 * @param register gives each route its path below `/admin`, and its access class. It is called for each prefix.
 * @param readToPresent awaited before each read; undefined where no other gateway can use the log
 */
export function mountAdmin(
  app: Routes,
  register: (admin: Routes) => void,
  readToPresent: ReadToPresent | undefined,
): void {
  const mount = (server: Routes, prefix: string, headers: Readonly<Record<string, string>>) =>
    void server.register(
      async (plugin) => {
        const admin = plugin.withTypeProvider<ZodTypes>();
        admin.setValidatorCompiler(validateBySchema);
        admin.addHook('onRequest', async (request, reply) => {
          reply.headers(headers);
          if (prefix === LEGACY_PREFIX) reply.header('link', successorOf(request.url));
          guardAdmin(request);
        });
        if (readToPresent !== undefined) readAtPresent(admin, readToPresent);
        requireETags(admin);
        register(admin);
      },
      { prefix },
    );
  mount(app, '/admin', SECURITY);
  app.registerLater(`${LEGACY_PREFIX}/`, (server) => mount(server, LEGACY_PREFIX, LEGACY));
}
