/** TLS of clients' connections: the certificate, read again when its files change, and certificates of clients. */
import { unwatchFile, watchFile } from 'node:fs';
import type { Socket } from 'node:net';
import { createServer, type Server, type TLSSocket } from 'node:tls';
import { readBoundedFile } from '../config/bounded-file.ts';

export interface TlsFiles {
  /** Absolute paths of PEM files. */
  readonly certFile: string;
  readonly keyFile: string;
  /** Of the authorities that sign the certificates of clients; undefined: clients are not asked for one. */
  readonly clientCaFile: string | undefined;
  /** Whether a client needs a certificate. One that it presents is always checked. */
  readonly clientAuth: 'optional' | 'required';
}

interface TlsOptions {
  readonly handshakeMs: number;
  /** Called when changed files are in force, or with the reason why they are not: the earlier ones then stay. */
  readonly reloaded: (problem: unknown) => void;
}

export interface Tls {
  /**
   * @param protocols that a client may choose, the preferred first
   * @param serve gets each connection after its handshake, with the subject of the client's certificate
   */
  server(
    protocols: readonly string[],
    serve: (socket: TLSSocket, subject: string | undefined) => void,
  ): (socket: Socket) => void;
  /** Ends the observation of the files. */
  close(): void;
}

/** How often the files are compared: their content may be replaced by a link elsewhere, which no event of a folder shows. */
const COMPARED_EVERY_MS = 1000;
const MAX_SUBJECT = 1024;

/** @throws Error when a file cannot be read, or the key is not the one of the certificate */
export function createTls(files: TlsFiles, { handshakeMs, reloaded }: TlsOptions): Tls {
  const { certFile, keyFile, clientCaFile, clientAuth } = files;
  const paths = [certFile, keyFile, ...(clientCaFile === undefined ? [] : [clientCaFile])];
  const servers: Server[] = [];
  const read = () => ({
    cert: readBoundedFile(certFile),
    key: readBoundedFile(keyFile),
    ...(clientCaFile === undefined ? {} : { ca: readBoundedFile(clientCaFile) }),
  });
  const reload = () => {
    try {
      const context = read();
      for (const server of servers) server.setSecureContext(context);
      reloaded(undefined);
    } catch (error) {
      reloaded(error);
    }
  };
  for (const path of paths) watchFile(path, { persistent: false, interval: COMPARED_EVERY_MS }, reload);
  return {
    server(protocols, serve) {
      const server = createServer({
        ...read(),
        ALPNProtocols: [...protocols],
        handshakeTimeout: handshakeMs,
        requestCert: clientCaFile !== undefined,
        rejectUnauthorized: clientAuth === 'required',
      });
      servers.push(server);
      // Also of a handshake that takes too long, after which Node leaves the connection open.
      server.on('tlsClientError', (_, socket) => socket.destroy());
      server.on('secureConnection', (socket) => {
        const certificate = clientCaFile === undefined ? undefined : socket.getPeerX509Certificate();
        if (certificate === undefined) serve(socket, undefined);
        else if (socket.authorized) serve(socket, subjectOf(certificate.subject));
        else socket.destroy();
      });
      return (socket) => server.emit('connection', socket);
    },
    close() {
      for (const path of paths) unwatchFile(path, reload);
    },
  };
}

/** In the order of RFC 4514: `CN=client,O=Example`. */
function subjectOf(lines: string): string {
  return lines.split('\n').reverse().join(',').slice(0, MAX_SUBJECT);
}
