package doctor

// The codes.
const (
	brokerUnreachable     = "broker-unreachable"
	brokerRefused         = "broker-refused"
	managementUnreachable = "management-unreachable"
	managementRefused     = "management-refused"
	managementUnset       = "management-unset"
	redisUnreachable      = "redis-unreachable"
	redisRefused          = "redis-refused"
	checkNotMade          = "check-not-made"

	brokerVersion    = "broker-version"
	featureFlagOff   = "feature-flag-off"
	brokerAlarm      = "broker-alarm"
	nodeDown         = "node-down"
	partition        = "partition"
	deadLetterFew    = "dead-letter-prefetch"
	deadLetterSlow   = "dead-letter-retry"
	deadLetterUnseen = "dead-letter-settings-unseen"

	topologyMissing  = "topology-missing"
	topologyDiffers  = "topology-differs"
	topologyLeftover = "topology-leftover"
	policyOverrides  = "policy-overrides"
	foreignBinding   = "foreign-binding"
	tierConsumed     = "tier-consumed"
	statisticsOff    = "statistics-off"

	permissionMissing   = "permission-missing"
	permissionConfigure = "permission-configure"
	permissionTooWide   = "permission-too-wide"
	userPrivileged      = "user-privileged"
	userTooWide         = "user-too-wide"

	plaintext       = "plaintext"
	defaultPassword = "default-password"
	certificateEnds = "certificate-ends"

	inboxUnattended = "inbox-unattended"
	unroutedHolds   = "unrouted-messages"
	tierWedged      = "tier-wedged"
	deadLetterCycle = "dead-letter-cycle"
	readyLoop       = "ready-loop"
	queueRefuses    = "queue-refuses"

	redisVersion      = "redis-version"
	redisReplica      = "redis-replica"
	redisWriteFailed  = "redis-write-failed"
	redisFull         = "redis-full"
	redisNearlyFull   = "redis-nearly-full"
	redisEvicts       = "redis-evicts"
	redisAppendOnly   = "redis-appendonly"
	redisAppendFsync  = "redis-appendfsync"
	redisRewriteFsync = "redis-fsync-on-rewrite"
	redisListpack     = "redis-listpack"
	redisUnseen       = "redis-settings-unseen"
	redisUserTooWide  = "redis-user-too-wide"

	redisLost        = "redis-lost"
	redisForeign     = "redis-foreign"
	confirmsMissing  = "confirms-missing"
	intakeStuck      = "intake-stuck"
	messageUnfit     = "message-unfit"
	messageNewer     = "message-newer"
	redisLayout      = "redis-layout"
	noBridge         = "no-bridge"
	shardsChanged    = "shards-changed"
	oneBridge        = "one-bridge"
	bridgeReleases   = "bridge-releases"
	leaseExpired     = "lease-expired"
	bridgeElsewhere  = "bridge-elsewhere"
	otherRedis       = "bridge-of-other-redis"
	inboxTaken       = "inbox-taken"
	withoutID        = "messages-without-id"
	redisClockWrong  = "clock-redis"
	brokerClockWrong = "clock-broker"
)

// kind is what is the same in all findings of a code.
type kind struct {
	severity  Severity
	means, do string
}

// catalogue has every code.
func catalogue() map[string]kind {
	return map[string]kind{
		brokerUnreachable:     {Problem, "nothing can be published, promoted or consumed", ""},
		brokerRefused:         {Problem, "programs with these settings cannot use the broker", "correct amqp-url; or see whether virtual host and user are there, and let the user in"},
		managementUnreachable: {Problem, "messages travel without it; most of what can be wrong with RabbitMQ cannot be seen", ""},
		managementRefused:     {Warning, "most of what can be wrong with RabbitMQ cannot be seen", "correct management-url; or give the user a tag and access to the virtual host, without any permission there"},
		managementUnset:       {Note, "most of what can be wrong with RabbitMQ is not looked at", "set it, with a user who has the tag monitoring; for permissions, administrator"},
		redisUnreachable:      {Problem, "nothing is parked, and what is parked waits; what is in the lanes and tiers goes on", "bring Redis back, or correct redis-url"},
		redisRefused:          {Problem, "programs with these settings cannot use Redis", "correct redis-url, or permit the user what Redis names"},
		checkNotMade:          {Warning, "it is not known whether this is in order", "mend what it says, and run the doctor again"},

		brokerVersion:    {Warning, "delaybridge is tested on RabbitMQ 3.10 to 4.3", "upgrade RabbitMQ, or this program"},
		featureFlagOff:   {Warning, "features stay off after an upgrade until somebody enables them, and the next upgrade may refuse to start", ""},
		brokerAlarm:      {Problem, "RabbitMQ blocks all publishers: nothing is taken in or promoted until the alarm clears", "free memory or disk; the command moves the limit, where there is room to"},
		nodeDown:         {Problem, "quorum queues that have no majority without the node stand still; the others have one failure less to spare", "start the node; where it runs, mend the network between the nodes, and run the doctor again"},
		partition:        {Problem, "the nodes do not see each other, and each side may go its own way", "mend the network, then restart the nodes of the smaller side, each on its machine"},
		deadLetterFew:    {Warning, "a tier drains at half the rate, and this many messages that their queue does not take hold up all behind them", "keep it in advanced.config, too; it counts for workers that start from now on, so restart the node"},
		deadLetterSlow:   {Warning, "what could not be handed over, because the ready exchange was missing or a queue was full, is tried again so late", "keep it in advanced.config, too; it counts for workers that start from now on, so restart the node"},
		deadLetterUnseen: {Note, "the rate at which tiers drain, and when they try again, is not known: only rabbitmqctl shows it", "run the command on a node, it should print 1000 and 10000; or let the doctor do so: --rabbitmqctl"},

		topologyMissing:  {Problem, "messages that come by here are refused or go astray", ""},
		topologyDiffers:  {Problem, "messages come early or late, are dropped, or are refused; it cannot be changed, only made anew", "see that the queue is empty, and stop the bridges for as long; or choose another prefix"},
		topologyLeftover: {Warning, "it belongs to another configuration; what is in a queue comes out when it is due", "list the tiers and entries again; or prune them: what holds messages stays until they are out"},
		policyOverrides:  {Problem, "the broker goes by the policy, not by the queue's argument: messages come early, are dropped, or are refused", "the command leaves the policy as it is for everybody else"},
		foreignBinding:   {Problem, "it takes messages out of their way, or puts others into it", ""},
		tierConsumed:     {Problem, "it gets messages before they are due", "stop the program behind that connection; closed, it may come back"},
		statisticsOff:    {Warning, "neither policies nor stuck messages can be seen", "see that rabbitmq.conf has neither management_agent.disable_metrics_collector nor management.disable_stats; or whether the queue has a leader"},

		permissionMissing:   {Problem, "a bridge with these settings cannot do its work", ""},
		permissionConfigure: {Note, "the bridge works, and does not put back what somebody deletes", "run delaybridge topology apply as another user, at first and after each deletion"},
		permissionTooWide:   {Warning, "who has the bridge's password can read, change or delete what has nothing to do with it", "where the user has other tasks as well, give the bridge one of its own"},
		userPrivileged:      {Warning, "who has the bridge's password can manage the broker", "give the management API a user of its own"},
		userTooWide:         {Warning, "what comes by there counts as a bridge's: it can have messages delivered early, to any queue or as another user", "the command makes it a publisher, and takes all else; 'delaybridge permissions' prints what other roles need (docs/permissions.md)"},

		plaintext:       {Note, "who can read the network between reads passwords and messages", "have the server listen with TLS, and ask for it in the URL's scheme (docs/tls.md); or see that the network is yours alone"},
		defaultPassword: {Warning, "everybody knows it, and RabbitMQ lets it in from other hosts here", "give the user another one, or each program a user of its own"},
		certificateEnds: {Warning, "from then on no program connects; what is connected stays so until it has to connect again", "replace it in its file: it is read anew for each connection"},

		inboxUnattended: {Problem, "messages of publishers without the Go producer wait there, and become late", ""},
		unroutedHolds:   {Problem, "they are due, and no queue is bound for them", "bind a queue; then the shovel publishes all that waits there again, once for all keys, and removes itself; give it no destination: in a ready exchange, headers that a stranger has forged would count"},
		tierWedged:      {Problem, "they are due, and the queue they lead to does not take them; after as many as the dead-letter prefetch no message leaves the tier or lane any more", "have its consumers work, or raise its limit; the tier tries again by itself (on RabbitMQ 3.10 drain the queue before a limit is lifted)"},
		deadLetterCycle: {Problem, "to RabbitMQ each of its messages that comes back is a cycle, which it drops, or keeps in the tier and tries for ever; as many as the dead-letter prefetch hold up everybody's messages of that tier", "make the entry a tracked one (+tracked), or name another dead-letter exchange. Where a tier is wedged already: unbind the queue (the commands), and within the dead-letter worker's pause the tier goes on, with the queue's messages in the unrouted queue; bind it again once the entry is tracked"},
		readyLoop:       {Warning, "what is due and matches all these bindings still has its x-delay: it is delayed and delivered again, without end", "delete one of the bindings (the command), or see that no routing key matches all of them"},
		queueRefuses:    {Warning, "once it is full, the tier or lane keeps its messages; as many as the dead-letter prefetch hold up everybody's there", "give it no length limit, or the overflow drop-head; on RabbitMQ 3.10 drain it before you lift its limit"},

		redisVersion:      {Warning, "delaybridge is tested on Redis 7 and 8, and Valkey 8 and 9", "upgrade"},
		redisReplica:      {Problem, "it refuses writes", "name the primary, or the Sentinels, in redis-url; or promote this server"},
		redisWriteFailed:  {Problem, "Redis refuses writes, and may lose what it has when it stops", "see the log of Redis, and make room on its disk; the command then writes anew"},
		redisFull:         {Problem, "nothing is parked, and the inbox grows; what is parked still leaves in time", "the command lasts until the restart; change redis.conf as well"},
		redisNearlyFull:   {Warning, "a full Redis refuses to park", "the command lasts until the restart; change redis.conf as well"},
		redisEvicts:       {Problem, "a full Redis throws parked messages away", "CONFIG REWRITE keeps it; where the server has no file, set it where the server is started"},
		redisAppendOnly:   {Problem, "parked messages are lost when Redis stops", "CONFIG REWRITE keeps it; where the server has no file, set it where the server is started"},
		redisAppendFsync:  {Warning, "messages parked in the last second or two can be lost when the machine fails", "CONFIG REWRITE keeps it; where the server has no file, set it where the server is started"},
		redisRewriteFsync: {Warning, "messages parked while Redis rewrites its file can be lost when the machine fails", "CONFIG REWRITE keeps it; where the server has no file, set it where the server is started"},
		redisListpack:     {Note, "parked messages take more memory than they need", "CONFIG REWRITE keeps it; where the server has no file, set it where the server is started"},
		redisUnseen:       {Warning, "it is not known whether Redis keeps what it confirms", "permit it, or compare the provider's settings with docs/operations.md and say --ignore redis-settings-unseen"},
		redisUserTooWide:  {Warning, "it can change or remove every message that waits there", "replace KEYS or PASSWORD, and keep it with ACL SAVE; 'delaybridge permissions' prints what roles need (docs/permissions.md)"},

		redisLost:        {Problem, "the messages that were parked then are gone, unless Redis' data is put back", "stop the bridges, restore Redis' data (its append-only file, or a snapshot), or publish again what is missing; find out who deleted it, or why Redis forgot it"},
		redisForeign:     {Problem, "bridges park and promote nothing, and who parks is refused; the inbox keeps what is published", "restore Redis' data, or go on with what it has: adopt says what that loses or repeats"},
		confirmsMissing:  {Problem, "what goes to this queue is late; the bridge tries until it is confirmed", "bring back the nodes that have its replicas; a queue that nobody can bring back has to be deleted and made anew"},
		intakeStuck:      {Problem, "messages of publishers without the Go producer wait in the inbox, and become late", "mend what the error names"},
		messageUnfit:     {Problem, "the message stays in Redis, and is tried every hour; others are not held up", "raise max_message_size or frame_max, then reschedule the message; or cancel it"},
		messageNewer:     {Problem, "the message stays in Redis until a bridge can read it; others are not held up", "replace the bridges by the later release; top has their versions"},
		redisLayout:      {Problem, "a bridge or producer with these settings refuses to work", "set shards to what is in use, or choose another prefix"},
		noBridge:         {Problem, "nothing is promoted: messages become late", ""},
		shardsChanged:    {Note, "what Redis has counts; while messages move, export, import and prune have to wait", "wait until that is over, and set shards to the number that Redis has then"},
		oneBridge:        {Note, "no other one takes over when it dies", "start another one, on another machine"},
		bridgeReleases:   {Note, "they work together; what only the later release does or mends depends on the bridge", "update those that are behind, one after the other; or see why an update has stopped"},
		leaseExpired:     {Problem, "its messages wait, and are late", "start a bridge; where one runs, see its log, and whether RabbitMQ has an alarm"},
		bridgeElsewhere:  {Problem, "two deployments share the prefix in Redis: each promotes the other's messages on its own broker; or the bridge has lost its connection to RabbitMQ", "give one of them another prefix; or see the bridge's log"},
		otherRedis:       {Problem, "two deployments share the prefix on this broker: each parks what the other one's publishers send, and cannot cancel it; or the bridge has lost its connection to Redis", "give one of them another prefix; or see the bridge's log"},
		inboxTaken:       {Problem, "it takes messages that are to be parked, and no bridge delivers them", "stop the program behind that connection; closed, it may come back"},
		withoutID:        {Note, "a bridge makes up an ID for each: such a message cannot be told from a repetition of it, nor cancelled by its publisher", "have their publishers give each message a message-id of its own"},
		redisClockWrong:  {Warning, "instants that are given here (x-deliver-at, --at) mean another one to Redis, whose clock decides; relative delays are right", "run it on both machines: each needs a time service (timedatectl set-ntp true); let the clocks be slewed, never stepped"},
		brokerClockWrong: {Warning, "TTLs are relative and stay right while the node runs; once it starts again with its clock put right, or another node leads, what is in tiers and lanes is early or late by as much", "run it on both machines: each needs a time service (timedatectl set-ntp true); let the clocks be slewed, or step the node's while its tiers and lanes are empty"},
	}
}
