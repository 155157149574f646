/**
 * A stand-in for EventStoreDB, for tests on machines without the real server. It answers the calls of
 * `@eventstore/db-client` that this project makes, with the rules of the server's documentation and source. It is no
 * proof that the real server does the same: tests use a real one when `EVENTSTORE_URL` names it.
 */
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js';
import { appendCall, batchAppendCall } from './append-calls.ts';
import { featureMessages, features, gossip, gossipMessages, shared, streams } from './definitions.ts';
import type { FaultSettings } from './faults.ts';
import { readCall } from './read-calls.ts';
import { createStandInState, type StandInState, type StandInStateOptions } from './stand-in-state.ts';

export interface StandInOptions extends StandInStateOptions {
  /** 0 or absent: a free one. */
  readonly port?: number;
  /** PEM texts. */
  readonly tls?: { readonly cert: string; readonly key: string } | undefined;
}

export interface EventStoreStandIn {
  readonly port: number;
  setFaults(settings: FaultSettings): void;
  /** Cuts every connection; the client connects anew. */
  disconnect(): void;
  /** Ends every subscription like the server does when a client reads too slowly. */
  dropSubscriptions(): void;
  stop(): Promise<void>;
}

type Subscriptions = Set<{ emit(event: 'error', error: object): unknown }>;

export async function runStandIn(options: StandInOptions): Promise<EventStoreStandIn> {
  const server = new Server({ 'grpc.max_receive_message_length': 17 * 1024 * 1024 });
  const disconnect = () => server.drain(`127.0.0.1:${port}`, 0);
  const state = createStandInState(options, disconnect);
  const reads: Subscriptions = new Set();
  addServices(server, state, reads, () => port);
  const port = await listen(server, options);
  return {
    port,
    disconnect,
    setFaults: (settings) => {
      state.faults.set(settings);
      state.wake();
    },
    dropSubscriptions: () => {
      const aborted = { code: 10, details: 'Operation timed out: consumer too slow' };
      for (const call of reads) call.emit('error', aborted);
    },
    stop: async () => {
      server.forceShutdown();
      state.wake();
      state.store.close();
    },
  };
}

function addServices(server: Server, state: StandInState, reads: Subscriptions, port: () => number): void {
  server.addService(streams.StreamsService, {
    append: (call: Parameters<typeof appendCall>[1], answer: Parameters<typeof appendCall>[2]) =>
      appendCall(state, call, answer),
    batchAppend: (call: Parameters<typeof batchAppendCall>[1]) => batchAppendCall(state, call),
    read: (call: Parameters<typeof readCall>[1]) => {
      reads.add(call);
      call.once('close', () => reads.delete(call));
      void readCall(state, call);
    },
    delete: notSupported,
    tombstone: notSupported,
  });
  server.addService(features.ServerFeaturesService, { getSupportedMethods: supportedMethods });
  server.addService(gossip.GossipService, { read: (_: unknown, answer: Answer) => answer(null, members(port())) });
}

type Answer = sendUnaryData<unknown>;

function notSupported(_: ServerUnaryCall<unknown, unknown>, answer: Answer): void {
  answer({ code: 12, details: 'the stand-in deletes nothing' });
}

function listen(server: Server, { port = 0, tls }: StandInOptions): Promise<number> {
  const credentials =
    tls === undefined
      ? ServerCredentials.createInsecure()
      : ServerCredentials.createSsl(null, [{ cert_chain: Buffer.from(tls.cert), private_key: Buffer.from(tls.key) }]);
  return new Promise((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, credentials, (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
}

function supportedMethods(_: unknown, answer: Answer): void {
  const method = (name: string) =>
    new featureMessages.SupportedMethod().setServiceName('event_store.client.streams.Streams').setMethodName(name);
  const methods = new featureMessages.SupportedMethods().setEventStoreServerVersion('24.10.0-stand-in');
  answer(null, methods.setMethodsList(['append', 'batchappend', 'read'].map(method)));
}

function members(port: number) {
  const member = new gossipMessages.MemberInfo();
  member.setInstanceId(new shared.UUID().setString('00000000-0000-4000-8000-000000000001'));
  member.setTimeStamp('0').setState(gossipMessages.MemberInfo.VNodeState.LEADER).setIsAlive(true);
  member.setHttpEndPoint(new gossipMessages.EndPoint().setAddress('127.0.0.1').setPort(port));
  return new gossipMessages.ClusterInfo().setMembersList([member]);
}
