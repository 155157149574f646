/** The messages and services of EventStoreDB as `@eventstore/db-client` has them, generated from its protocol. */

export { default as gossip } from '@eventstore/db-client/generated/gossip_grpc_pb.js';
export { default as gossipMessages } from '@eventstore/db-client/generated/gossip_pb.js';
export { default as features } from '@eventstore/db-client/generated/serverfeatures_grpc_pb.js';
export { default as featureMessages } from '@eventstore/db-client/generated/serverfeatures_pb.js';
export { default as shared } from '@eventstore/db-client/generated/shared_pb.js';
export { default as status } from '@eventstore/db-client/generated/status_pb.js';
export { default as streams } from '@eventstore/db-client/generated/streams_grpc_pb.js';
export { default as messages } from '@eventstore/db-client/generated/streams_pb.js';
