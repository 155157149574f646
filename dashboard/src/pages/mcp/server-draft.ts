/** An MCP server as the form edits it, and as it is sent. Pure. */
import { type FormValue, type SchemaField, SECRET_MASK } from '../../ui/schema-fields.ts';

/** A row of `GET /admin/mcp-servers`, as far as the form reads it. */
export interface ServerRow {
  readonly name: string;
  readonly slug: string;
  readonly transport: string;
  readonly url?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly description?: string | undefined;
  readonly enabled: boolean;
  readonly allowed_tools?: readonly string[] | undefined;
  readonly disallowed_tools?: readonly string[] | undefined;
  readonly user_paths?: readonly string[] | undefined;
  readonly tool_timeout_seconds: number;
  readonly pin: boolean;
  readonly price_per_call?: number | undefined;
  readonly oauth?:
    | {
        readonly grant: 'authorization_code' | 'client_credentials';
        readonly client_id?: string | undefined;
        readonly client_secret?: string | undefined;
        readonly scope?: string | undefined;
        readonly issuer?: string | undefined;
        readonly per_user_path: boolean;
      }
    | undefined;
}

export const usualFields: readonly SchemaField[] = [
  { key: 'name', label: 'Name', kind: 'text', required: true },
  { key: 'url', label: 'URL', kind: 'text', required: true, placeholder: 'https://example.com/mcp' },
  {
    ...{ key: 'headers', label: 'Headers', kind: 'objects', itemName: 'Header' },
    fields: [
      { key: 'name', label: 'Name', kind: 'text', required: true, placeholder: 'x-api-key' },
      { key: 'value', label: 'Value', kind: 'secret', required: true },
    ],
  },
  { key: 'description', label: 'Description', kind: 'text' },
];

export const advancedFields: readonly SchemaField[] = [
  {
    ...{ key: 'transport', label: 'Transport', kind: 'choice' },
    options: [
      { value: 'streamable_http', title: 'Streamable HTTP' },
      { value: 'sse', title: 'HTTP with server-sent events, of older servers' },
    ],
  },
  {
    key: 'user_paths',
    label: 'User paths that see it',
    kind: 'list',
    placeholder: '/team/alpha',
    help: 'Without any: all.',
  },
  { key: 'allowed_tools', label: 'Allowed tools', kind: 'list', help: 'Without any: all that are not disallowed.' },
  { key: 'disallowed_tools', label: 'Disallowed tools', kind: 'list' },
  {
    key: 'tool_timeout_seconds',
    label: 'Time limit of a call, in seconds',
    kind: 'number',
    least: 1,
    placeholder: '30',
  },
  { key: 'price_per_call', label: 'Price of a call, in US dollars', kind: 'number', least: 0 },
  {
    ...{ key: 'pin', label: 'Withhold changed tools', kind: 'boolean' },
    help: 'A tool whose description or schema changes cannot be used until an administrator accepts the change.',
  },
];

export const oauthFields: readonly SchemaField[] = [
  {
    ...{ key: 'grant', label: 'Grant', kind: 'choice', required: true },
    options: [
      { value: 'authorization_code', title: 'An administrator grants access in a browser' },
      { value: 'client_credentials', title: 'Client credentials' },
    ],
  },
  {
    ...{ key: 'client_id', label: 'Client id', kind: 'text' },
    help: 'Without one, the gateway registers itself at the authorization server.',
  },
  { key: 'client_secret', label: 'Client secret', kind: 'secret' },
  { key: 'scope', label: 'Scope', kind: 'text', help: 'Default: what the server asks for.' },
  { key: 'issuer', label: 'Authorization server', kind: 'text', help: 'Default: the one that the server names.' },
  { key: 'per_user_path', label: 'User paths have authorizations of their own', kind: 'boolean' },
];

/** The settings of a row as the form has them. Secrets are masks. */
export function draftOf(row: ServerRow | undefined): FormValue {
  if (row === undefined) return {};
  const { name, url, headers, description, transport, user_paths, allowed_tools, disallowed_tools, oauth } = row;
  const { tool_timeout_seconds, price_per_call, pin } = row;
  const list = headers && Object.keys(headers).map((header) => ({ name: header, value: SECRET_MASK }));
  const secret = oauth?.client_secret === undefined ? {} : { client_secret: SECRET_MASK };
  return defined({
    ...{ name, url, headers: list, description, transport, user_paths, allowed_tools, disallowed_tools },
    ...{ tool_timeout_seconds, price_per_call, pin: pin || undefined },
    oauth:
      oauth &&
      defined({
        ...{ grant: oauth.grant, client_id: oauth.client_id, ...secret, scope: oauth.scope, issuer: oauth.issuer },
        per_user_path: oauth.per_user_path || undefined,
      }),
  });
}

/** The body that saves a draft. */
export function bodyOf(
  draft: FormValue,
  { slug, enabled }: { readonly slug: string | undefined; readonly enabled: boolean },
) {
  const { headers, ...rest } = draft;
  const list = Array.isArray(headers) ? headers : [];
  return {
    ...rest,
    ...(slug === undefined ? {} : { slug }),
    ...(list.length === 0 ? {} : { headers: Object.fromEntries(list.map(({ name, value = '' }) => [name, value])) }),
    enabled,
  };
}

/** For the view of a conflict. */
export function withoutSecrets(draft: FormValue): FormValue {
  const { headers, oauth, ...rest } = draft;
  const names = Array.isArray(headers) ? headers.map(({ name }) => name) : undefined;
  return defined({
    ...rest,
    headers: names,
    oauth: typeof oauth === 'object' ? { ...oauth, client_secret: undefined } : undefined,
  });
}

function defined(value: FormValue): FormValue {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined));
}
