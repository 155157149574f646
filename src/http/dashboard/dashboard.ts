/**
 * The dashboard: its page at `/admin/dashboard` and every path below, and its assets at `/admin/static/*`. Neither needs
 * a key; the data that the page requests does.
 *
 * The URLs in the page are relative, with as many `../` as the request path is deep. The page therefore works behind a
 * proxy that removes any prefix, without a setting.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { refusals } from '../../commands/refusal.ts';
import { emptyAnswer, mediaAnswer, pathParameters, publicRoute, type Routes } from '../api/route-schema.ts';
import { withOwnVary } from '../open-exchanges.ts';
import type { Bundle } from './bundle.ts';

/** Which variant of a file a client receives (RFC 9110 §12.5.3). */
const codings = ['br', 'gzip'] as const;
type Coding = (typeof codings)[number];

/** A header with more members than this counts as absent. */
const MAX_MEMBERS = 32;

/**
 * The coding that the client prefers among those that are available; of equal weights, the first of `codings`.
 * @returns undefined for the file as it is, also when the client excludes that
 */
function preferredCoding(accepted: string | undefined, available: (coding: Coding) => boolean): Coding | undefined {
  const members = accepted?.toLowerCase().split(',') ?? [];
  if (members.length > MAX_MEMBERS) return undefined;
  const weights = new Map(members.map(weightOf));
  const weight = (name: string) => weights.get(name) ?? weights.get('*') ?? 0;
  const best = codings
    .filter((coding) => available(coding) && weight(coding) > 0)
    .reduce<Coding | undefined>(
      (one, other) => (one !== undefined && weight(one) >= weight(other) ? one : other),
      undefined,
    );
  const plain = weights.get('identity') ?? 0;
  return best !== undefined && weight(best) >= plain ? best : undefined;
}

/** `gzip;q=0.5` */
function weightOf(member: string): [name: string, weight: number] {
  const [name = '', ...parameters] = member.split(';').map((part) => part.trim());
  const weight = parameters.find((one) => one.startsWith('q='))?.slice(2);
  return [name, weight === undefined ? 1 : Number(weight) || 0];
}

const PAGE = '/admin/dashboard';
/** The answer in place of the page. */
export const DASHBOARD_NOT_BUILT =
  'The dashboard was not built. Build it with "npm run dashboard" and restart the gateway.';

/** Also on assets: a worker has the policy of its own script. */
const securityHeaders = {
  'content-security-policy': [
    "default-src 'self'",
    "img-src 'self' data: blob:",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "object-src 'none'",
    "require-trusted-types-for 'script'",
    'trusted-types chancery',
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()',
};

const pageAnswers = {
  200: mediaAnswer('The page', 'text/html', { type: 'string' }),
  304: emptyAnswer('The page with the `ETag` in `If-None-Match`'),
  503: mediaAnswer('The dashboard was not built', 'text/plain', { type: 'string' }),
};

const getPage = publicRoute('dashboard', 'Open the dashboard', {
  tag: 'operations',
  description: 'The page needs no key; the data that it requests does. Off with `ADMIN_UI_ENABLED=false`.',
  response: pageAnswers,
  errors: [400],
});

const getPageBelow = publicRoute('dashboardPath', 'Open a page of the dashboard', {
  tag: 'operations',
  description: 'The same page: it reads its path itself.',
  params: pathParameters({ path: 'Path in the dashboard' }),
  response: pageAnswers,
  errors: [400],
});

const getAsset = publicRoute('dashboardAsset', 'Load a script, style or image of the dashboard', {
  tag: 'operations',
  description: 'Its name contains a hash of its content, so it is cached for ever.',
  params: pathParameters({ path: 'Name of the file' }),
  response: { 200: mediaAnswer('The file', '*/*') },
  errors: [400, 404],
});

/** @param bundle undefined when the dashboard was not built */
export function registerDashboard(app: Routes, bundle: Bundle | undefined): void {
  const sendPage = (request: FastifyRequest, reply: FastifyReply) => {
    reply.headers(securityHeaders);
    if (bundle === undefined) {
      return reply
        .code(503)
        .headers({ 'cache-control': 'no-store' })
        .type('text/plain; charset=utf-8')
        .send(`${DASHBOARD_NOT_BUILT}\n`);
    }
    const up = '../'.repeat(depthOf(request.url));
    const etag = `"${bundle.version}-${up.length}"`;
    reply.headers({ 'cache-control': 'no-cache', etag });
    if (isKnown(etag, request.headers['if-none-match'])) return reply.code(304).send();
    return reply.type('text/html; charset=utf-8').send(bundle.page.replaceAll('"./assets/', `"${up}static/`));
  };
  app.get(PAGE, getPage, sendPage);
  app.get(`${PAGE}/*`, getPageBelow, sendPage);

  app.get<{ Params: { '*': string } }>('/admin/static/*', getAsset, (request, reply) => {
    const asset = bundle?.assets.get(request.params['*']);
    reply.headers({ ...securityHeaders, 'cache-control': 'no-store' });
    if (asset === undefined) throw refusals.unknownRoute(request.method, pathOf(request.url));
    const coding = preferredCoding(request.headers['accept-encoding'], (one) => asset[one] !== undefined);
    reply.headers({
      'cache-control': 'public, max-age=31536000, immutable',
      ...withOwnVary({ vary: 'Accept-Encoding' }, reply.raw.getHeader('vary')),
      ...(coding === undefined ? {} : { 'content-encoding': coding }),
    });
    return reply.type(asset.type).send((coding && asset[coding]) ?? asset.plain);
  });
}

/** How many folders below `/admin/` a browser resolves relative URLs: it counts each slash that is not encoded. */
function depthOf(url: string): number {
  return pathOf(url).slice(PAGE.length).split('/').length - 1;
}

/** @param url as in the request line: also in absolute form (RFC 9112 §3.2.2), and with a fragment that some clients send */
function pathOf(url: string): string {
  const path = url.startsWith('/') ? url : url.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '');
  return path.split(/[?#]/, 1)[0] ?? path;
}

/** As `If-None-Match` compares: by the value, weak or not (RFC 9110 §13.1.2). */
function isKnown(etag: string, header: string | undefined): boolean {
  if (header === undefined) return false;
  const known = header.split(',').map((one) => one.trim().replace(/^W\//, ''));
  return known.includes(etag) || known.includes('*');
}
