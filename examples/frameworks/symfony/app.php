<?php
// What a Symfony application has anyway: a kernel, and its console.
//
//     app.php messenger:consume due      runs the handler
//     app.php place ORDER MILLISECONDS
require_once 'Symfony/Bundle/FrameworkBundle/autoload.php';
require_once 'Symfony/Component/Console/autoload.php';
require_once 'Symfony/Component/Messenger/autoload.php';
require_once 'Symfony/Component/Messenger/Bridge/Amqp/autoload.php';
require_once 'Symfony/Component/Yaml/autoload.php';
require_once __DIR__.'/CloseOrder.php';

use Symfony\Bundle\FrameworkBundle\Console\Application;
use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpKernel\Kernel;

final class Shop extends Kernel
{
    use MicroKernelTrait;

    public function registerBundles(): iterable { return [new FrameworkBundle()]; }
    public function getProjectDir(): string { return __DIR__; }
    public function getCacheDir(): string { return getenv('SHOP_CACHE').'/'.getmypid(); }
    public function getLogDir(): string { return $this->getCacheDir(); }

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $container->import(__DIR__.'/messenger.yaml');
        $container->services()->set(CloseOrderHandler::class, CloseOrderHandler::class)->autoconfigure();
        $container->services()->alias('bus', 'messenger.default_bus')->public();
    }

    protected function configureRoutes($routes): void {}
}

$kernel = new Shop('prod', false);
if ($argv[1] === 'place') {
    $kernel->boot();
    place($kernel->getContainer()->get('bus'), $argv[2], (int) $argv[3]);
} else {
    (new Application($kernel))->run();
}
