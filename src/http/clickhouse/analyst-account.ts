/** The statements that create the account of analysts on a ClickHouse server, with its rights and limits. */
import { constantSettings, queryLimits } from './engine-access.ts';
import { literal } from './normal-form.ts';
import { quotedIdentifier } from './quoted-identifier.ts';
import { readableSystemTables } from './system-tables.ts';

export interface AnalystAccount {
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

/** Names on the server: another version may lack some. */
export interface ServerNames {
  readonly settings: ReadonlySet<string>;
  readonly systemTables: ReadonlySet<string>;
}

export interface Statement {
  readonly text: string;
  /** The statement without the password. */
  readonly shown: string;
}

/** Settings and tables whose names are read from the server. */
export const allowedNames = { settings: constantSettings, systemTables: [...readableSystemTables] };

/**
 * The statements, to be executed in this order by a user who may manage access; repeatable with the same result. Grants
 * that the user already had remain.
 */
export function analystAccount({ user, password, database }: AnalystAccount, server: ServerNames): Statement[] {
  const [name, profile] = [quotedIdentifier(user), quotedIdentifier(`${database}_analyst`)];
  // The server refuses a setting above its maximum, and below 1, which would mean no limit.
  const bounded = Object.entries(queryLimits).map(([setting, most]) => `${setting} = ${most} MIN 1 MAX ${most}`);
  const constant = constantSettings.filter((setting) => server.settings.has(setting));
  const settings = ['readonly = 2', ...bounded, ...constant.map((setting) => `${setting} CONST`)];
  const tables = [...readableSystemTables].filter((table) => server.systemTables.has(table)).sort();
  const own = tables.map((table) => `SELECT ON system.${quotedIdentifier(table)}`);
  const account = (secret: string) =>
    `${name} IDENTIFIED WITH sha256_password BY ${secret} SETTINGS PROFILE ${profile}`;
  return [
    open(`CREATE DATABASE IF NOT EXISTS ${quotedIdentifier(database)}`),
    open(`CREATE SETTINGS PROFILE OR REPLACE ${profile} SETTINGS ${settings.join(', ')}`),
    masked((secret) => `CREATE USER IF NOT EXISTS ${account(secret)}`, password),
    masked((secret) => `ALTER USER ${account(secret)}`, password),
    open(`GRANT ${[`SELECT ON ${quotedIdentifier(database)}.*`, ...own].join(', ')} TO ${name}`),
  ];
}

/** Queries that the server must refuse to the account: the processes of others, and a connection to another server. */
export const refusedQueries: readonly string[] = [
  'SELECT count() FROM system.processes',
  "SELECT * FROM url('http://127.0.0.1:1/', 'TSV', 'a String')",
];

function open(text: string): Statement {
  return { text, shown: text };
}

function masked(write: (secret: string) => string, password: string): Statement {
  return { text: write(literal(password)), shown: write("'***'") };
}
