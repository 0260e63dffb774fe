// Produces and consumes with kafkajs for the client tests: see program_test.go, members_test.go, transactions_test.go.
'use strict'

const fs = require('fs')
const readline = require('readline')

// The plug-in for lz4 needs a compiled module, or this one of the same package, which browsers get.
require.cache[require.resolve('lz4/lib/utils.js')] = { exports: require('lz4/lib/utils-js.js') }

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require('kafkajs')
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

// consume reads all topics at once, as joining a group takes a while, and each as often as there are starts.
async function consume(kafka, lines) {
  const admin = kafka.admin()
  await admin.connect()
  const starts = await Promise.all(lines.map(line => startOf(admin, line)))
  await admin.disconnect()
  const rounds = []
  for (const start of starts) {
    let round = rounds.find(round => !round.has(start.topic))
    if (round === undefined) {
      rounds.push((round = new Map()))
    }
    round.set(start.topic, start)
  }
  await Promise.all(rounds.map((round, i) => readRound(kafka, `exchange-${i}`, round)))
  for (const { read } of starts) {
    process.stdout.write(read.map(record => JSON.stringify(record) + '\n').join('') + '\n')
  }
}

// startOf is where reading begins and ends, and what has been read.
async function startOf(admin, line) {
  const [topic, start] = line.split(' ')
  const [kind, at] = start.split(':')
  const [{ high }] = await admin.fetchTopicOffsets(topic)
  const offset = kind === 'time' ? (await admin.fetchTopicOffsetsByTimestamp(topic, Number(at)))[0].offset : at
  return { topic, offset: BigInt(offset), end: BigInt(high), read: [] }
}

// readRound reads topics, each from its start to its end, as the one member of a group.
async function readRound(kafka, groupId, round) {
  const consumer = kafka.consumer({
    groupId, maxWaitTimeInMs: 50, maxBytes: 4 * maxMessageBytes, maxBytesPerPartition: maxMessageBytes,
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [...round.keys()], fromBeginning: true })
  const missing = new Set([...round.values()].filter(start => start.offset < start.end))
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({
      eachMessage: async ({ topic, message }) => {
        const start = round.get(topic)
        if (BigInt(message.offset) < start.offset || !missing.has(start)) {
          return
        }
        start.read.push(recordOf(message))
        if (BigInt(message.offset) + 1n >= start.end) {
          missing.delete(start)
        }
        if (missing.size === 0) {
          resolve()
        }
      },
    }).catch(reject)
    for (const start of missing) {
      consumer.seek({ topic: start.topic, partition: 0, offset: String(start.offset) })
    }
  })
  await consumer.disconnect()
}

function recordOf(message) {
  return {
    offset: Number(message.offset),
    timestamp: Number(message.timestamp),
    key: encode(message.key),
    value: encode(message.value),
    headers: Object.entries(message.headers).flatMap(([name, values]) =>
      [values].flat().map(value => ({ name, value: encode(value) }))
    ),
  }
}

// members has members of groups join and leave as the lines of stdin say.
async function members(kafka) {
  const tell = message => process.stdout.write(JSON.stringify(message) + '\n')
  const running = new Map()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [verb, member, group, topic] = line.split(' ')
    if (verb === 'leave') {
      await running.get(member).disconnect()
      tell({ member, left: true })
      continue
    }
    const consumer = kafka(member).consumer({
      groupId: group, sessionTimeout: 6000, heartbeatInterval: 500, maxWaitTimeInMs: 50,
    })
    running.set(member, consumer)
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({
      eachMessage: async ({ partition, message }) =>
        tell({ member, partition, offset: Number(message.offset), value: message.value.toString() }),
    })
  }
}

// transact does a transaction for each value, after one that it aborts.
async function transact(kafka, { id, topic, partition, source, group, values }) {
  const producer = kafka.producer({ transactionalId: id, idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  for (const [i, value] of values.entries()) {
    const refused = await producer.transaction()
    await refused.send({ topic, messages: [{ partition, value: 'aborted' }] })
    await refused.abort()
    const transaction = await producer.transaction()
    await transaction.send({ topic, messages: [{ partition, value }] })
    await transaction.sendOffsets({
      consumerGroupId: group,
      topics: [{ topic: source, partitions: [{ partition: 0, offset: String(i + 1) }] }],
    })
    await transaction.commit()
  }
  await producer.disconnect()
}

async function main() {
  const [verb, brokers] = process.argv.slice(2)
  const client = clientId =>
    new Kafka({ brokers: brokers.split(','), connectionTimeout: 10_000, clientId, logLevel: logLevel.ERROR })
  if (verb === 'members') {
    return members(client)
  }
  const lines = fs.readFileSync(0, 'utf8').split('\n').filter(line => line !== '')
  await zstd.init()
  switch (verb) {
    case 'produce':
      return produce(client('exchange'), lines)
    case 'consume':
      return consume(client('exchange'), lines)
    case 'transact':
      return transact(client('exchange'), JSON.parse(lines[0]))
  }
  throw new Error(`${verb} is none of produce, consume, members and transact`)
}

main().catch(error => {
  console.error(error)
  process.exitCode = 1
})
