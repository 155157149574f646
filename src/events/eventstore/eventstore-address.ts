/**
 * The address of a log on EventStoreDB or KurrentDB:
 * `esdb://[user:password@]host[:2113][,host2[:2113]]/<log name>[?setting=value&…]`, also with `esdb+discover`, `kurrentdb`
 * and `kurrentdb+discover`. The client's own parser is not used: its errors contain the address with the password.
 */
import { readFileSync } from 'node:fs';
import type {
  ChannelCredentialOptions,
  DNSClusterOptions,
  GossipClusterOptions,
  SingleNodeOptions,
} from '@eventstore/db-client';
import { EngineUnsuitable, enginePort, type LogEngineAccess, settingsInQuery } from '../replicated/engine.ts';

export interface EventStoreAddress {
  /** Keeps the logs of one server apart: the streams of a log begin with its name and a dot. */
  readonly logName: string;
  readonly connection: DNSClusterOptions | GossipClusterOptions | SingleNodeOptions;
  readonly channel: ChannelCredentialOptions;
  readonly credentials: { readonly username: string; readonly password: string } | undefined;
  /** Milliseconds within which the server must answer a call. */
  readonly deadlineMs: number;
}

const defaultLogName = 'chancery';
const defaultPort = 2113;
const defaultDeadlineMs = 10_000;
const numbers = [
  'defaultDeadline',
  'keepAliveInterval',
  'keepAliveTimeout',
  'maxDiscoverAttempts',
  'discoveryInterval',
  'gossipTimeout',
] as const;
const texts = ['connectionName', 'nodePreference', 'tls', 'tlsCAFile', 'userCertFile', 'userKeyFile'] as const;

type Settings = { [name in (typeof numbers)[number]]?: number } & { [name in (typeof texts)[number]]?: string };

/** @throws EngineUnsuitable, with a message without the address */
export function parseEventStoreAddress(access: LogEngineAccess): EventStoreAddress {
  const form = /^(?:esdb|kurrentdb)(\+discover)?:\/\/(?:([^@/?]*)@)?([^@/?]+)(?:\/([^?]*))?(?:\?(.*))?$/.exec(
    access.url,
  );
  if (form === null) throw new EngineUnsuitable('the address is not of the form esdb://host:2113/<log name>?tls=true');
  const [, discover, userinfo, hosts = '', path = '', query = ''] = form;
  const logName = path === '' ? defaultLogName : path;
  if (!/^[A-Za-z0-9_-]{1,100}$/.test(logName)) {
    throw new EngineUnsuitable('the name of a log on EventStoreDB consists of letters, digits, "_" and "-"');
  }
  const settings = parseSettings(query);
  const endpoints = hosts.split(',').map(parseEndpoint);
  const {
    connectionName = 'chancery',
    defaultDeadline = defaultDeadlineMs,
    keepAliveInterval,
    keepAliveTimeout,
  } = settings;
  const own = { connectionName, defaultDeadline, keepAliveInterval, keepAliveTimeout, throwOnAppendFailure: true };
  const { maxDiscoverAttempts, discoveryInterval, gossipTimeout } = settings;
  const finding = { maxDiscoverAttempts, discoveryInterval, gossipTimeout, nodePreference: 'leader' as const };
  const [first = parseEndpoint('')] = endpoints;
  return {
    logName,
    deadlineMs: defaultDeadline,
    connection:
      discover !== undefined
        ? { ...own, ...finding, discover: first }
        : endpoints.length > 1
          ? { ...own, ...finding, endpoints }
          : { ...own, endpoint: first },
    channel: channelOptions(access, settings),
    credentials: credentialsOf(access, userinfo),
  };
}

function parseEndpoint(host: string): { address: string; port: number } {
  const [address = '', port = String(defaultPort), ...rest] = host.split(':');
  if (address === '' || rest.length > 0 || !/^\d{1,5}$/.test(port)) {
    throw new EngineUnsuitable('a server in the address is not of the form host:port');
  }
  return { address, port: enginePort(port) };
}

function parseSettings(query: string): Settings {
  const settings: Settings = {};
  for (const [flat, value] of settingsInQuery(query, (name) => name.toLowerCase().replace(/[_-]/g, ''))) {
    const number = numbers.find((known) => known.toLowerCase() === flat);
    const text = texts.find((known) => known.toLowerCase() === flat);
    if (number !== undefined) {
      if (!/^-?\d{1,12}$/.test(value))
        throw new EngineUnsuitable(`the setting ${number} of the address is not a number`);
      settings[number] = Number(value);
    } else if (text !== undefined) settings[text] = value;
    else {
      throw new EngineUnsuitable(`the address has an unknown setting; known are ${[...texts, ...numbers].join(', ')}`);
    }
  }
  if (!['true', 'false'].includes(settings.tls ?? 'true')) {
    throw new EngineUnsuitable('the setting tls of the address is neither true nor false');
  }
  if ((settings.nodePreference ?? 'leader').toLowerCase() !== 'leader') {
    throw new EngineUnsuitable('nodePreference must be leader: other nodes may be behind what the gateway has read');
  }
  if ((settings.defaultDeadline ?? 1) <= 0) throw new EngineUnsuitable('defaultDeadline must be greater than 0');
  return settings;
}

function channelOptions(access: LogEngineAccess, settings: Settings): ChannelCredentialOptions {
  const tls = access.tls ?? settings.tls !== 'false';
  if (!tls) return { insecure: true };
  const ca = access.ca ?? fileOf('tlsCAFile', settings.tlsCAFile);
  const cert = access.cert ?? fileOf('userCertFile', settings.userCertFile);
  const key = access.key ?? fileOf('userKeyFile', settings.userKeyFile);
  if ((cert === undefined) !== (key === undefined)) {
    throw new EngineUnsuitable("the client's certificate needs its key, and the key its certificate");
  }
  return {
    insecure: false,
    ...(ca === undefined ? {} : { rootCertificate: Buffer.from(ca) }),
    ...(cert === undefined ? {} : { userCertFile: Buffer.from(cert) }),
    ...(key === undefined ? {} : { userKeyFile: Buffer.from(key) }),
  };
}

function fileOf(setting: string, path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, 'utf8');
  } catch {
    throw new EngineUnsuitable(`the file of the setting ${setting} cannot be read: ${path}`);
  }
}

function credentialsOf(access: LogEngineAccess, userinfo = ''): EventStoreAddress['credentials'] {
  if (access.user !== undefined) return { username: access.user, password: access.password ?? '' };
  if (userinfo === '') return undefined;
  const separator = userinfo.indexOf(':');
  if (separator < 1) throw new EngineUnsuitable('the address has a user without a password');
  try {
    return {
      username: decodeURIComponent(userinfo.slice(0, separator)),
      password: decodeURIComponent(userinfo.slice(separator + 1)),
    };
  } catch {
    throw new EngineUnsuitable('user or password of the address are not percent-encoded correctly');
  }
}
