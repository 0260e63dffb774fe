// Produces and consumes with kafkajs for the client tests: see program_test.go.
//
// The consumer of kafkajs always joins a group. What it reads with, under the group, reads here: its cluster and brokers,
// which send and decode its fetches.
'use strict'

const fs = require('fs')

// The plug-in for lz4 needs a compiled module, or this one of the same package, which browsers get.
require.cache[require.resolve('lz4/lib/utils.js')] = { exports: require('lz4/lib/utils-js.js') }

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require('kafkajs')
const Cluster = require('kafkajs/src/cluster')
const LoggerConsole = require('kafkajs/src/loggers/console')
const { createLogger } = require('kafkajs/src/loggers')
const defaultSocketFactory = require('kafkajs/src/network/socketFactory')
const LZ4 = require('kafkajs-lz4')
const Snappy = require('kafkajs-snappy')
const zstd = require('@bokuweb/zstd-wasm')

const maxMessageBytes = 12_000_000

const compressionTypes = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

CompressionCodecs[CompressionTypes.Snappy] = Snappy
CompressionCodecs[CompressionTypes.LZ4] = new LZ4().codec
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(zstd.decompress(buffer, { defaultHeapSize: maxMessageBytes })),
})

const encode = data => (data == null ? null : Buffer.from(data).toString('base64'))
const decode = text => (text === null ? null : Buffer.from(text, 'base64'))

async function produce(kafka, lines) {
  let topic = null
  let messages = []
  const flush = async () => {
    if (topic !== null) {
      const producer = kafka.producer({ idempotent: true, createPartitioner: () => () => 0 })
      await producer.connect()
      await producer.send({
        topic: topic.topic,
        acks: -1,
        compression: compressionTypes[topic.codec],
        messages,
      })
      await producer.disconnect()
    }
    messages = []
  }
  for (const line of lines) {
    const record = JSON.parse(line)
    if ('topic' in record) {
      await flush()
      topic = record
    } else {
      messages.push({
        partition: 0,
        key: decode(record.key),
        value: decode(record.value),
        timestamp: String(record.timestamp),
        headers: headersOf(record),
      })
    }
  }
  await flush()
}

// headersOf makes an object of names, of which each has a value or several.
function headersOf(record) {
  const headers = {}
  for (const { name, value } of record.headers || []) {
    headers[name] = name in headers ? [headers[name], decode(value)].flat() : decode(value)
  }
  return headers
}

async function consume(kafka, cluster, lines) {
  const admin = kafka.admin()
  await admin.connect()
  await cluster.connect()
  for (const line of lines) {
    const [topic, start] = line.split(' ')
    const [kind, at] = start.split(':')
    let offset = at
    if (kind === 'time') {
      const found = await admin.fetchTopicOffsetsByTimestamp(topic, Number(at))
      offset = found[0].offset
    }
    await cluster.addTargetTopic(topic)
    await read(cluster, topic, BigInt(offset))
    process.stdout.write('\n')
  }
  await cluster.disconnect()
  await admin.disconnect()
}

// read prints the records of partition 0 from an offset to the end.
async function read(cluster, topic, offset) {
  const broker = await cluster.findBroker({ nodeId: leaderOf(cluster, topic) })
  for (;;) {
    const answer = await broker.fetch({
      maxWaitTime: 50,
      maxBytes: maxMessageBytes,
      isolationLevel: 0,
      topics: [{ topic, partitions: [{ partition: 0, fetchOffset: String(offset), maxBytes: maxMessageBytes }] }],
    })
    const partition = answer.responses[0].partitions[0]
    for (const message of partition.messages) {
      if (BigInt(message.offset) < offset) {
        continue // a batch is fetched whole
      }
      offset = BigInt(message.offset) + 1n
      const headers = Object.entries(message.headers).flatMap(([name, values]) =>
        [values].flat().map(value => ({ name, value: encode(value) }))
      )
      process.stdout.write(JSON.stringify({
        offset: Number(message.offset),
        timestamp: Number(message.timestamp),
        key: encode(message.key),
        value: encode(message.value),
        headers,
      }) + '\n')
    }
    if (offset >= BigInt(partition.highWatermark)) {
      return
    }
  }
}

function leaderOf(cluster, topic) {
  return cluster.findTopicPartitionMetadata(topic).find(partition => partition.partitionId === 0).leader
}

async function main() {
  const [verb, brokers] = process.argv.slice(2)
  const lines = fs.readFileSync(0, 'utf8').split('\n').filter(line => line !== '')
  const options = { brokers: brokers.split(','), connectionTimeout: 10_000, clientId: 'exchange' }
  const kafka = new Kafka({ ...options, logLevel: logLevel.ERROR })
  await zstd.init()
  if (verb === 'produce') {
    return produce(kafka, lines)
  }
  const cluster = new Cluster({
    ...options,
    logger: createLogger({ level: logLevel.ERROR, logCreator: LoggerConsole }),
    socketFactory: defaultSocketFactory(),
    metadataMaxAge: 300_000,
    allowAutoTopicCreation: false,
    isolationLevel: 0,
  })
  return consume(kafka, cluster, lines)
}

main().catch(error => {
  console.error(error)
  process.exitCode = 1
})
